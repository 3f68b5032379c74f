"""Where comments, strings, directives and names are in C, C++ and Fortran: the one scanner of this package.

Nothing here parses a program. A language is `c` (C and C++), `free` or `fixed` (Fortran's two source forms), or
`fortran`, whose form is told by the code (`fixed_form`).

Directives are OpenMP's in all their spellings: `#pragma omp` with blanks, line continuations and comments anywhere, as
digraph or trigraph, `_Pragma("omp …")`, `__pragma(omp …)`, `[[omp::directive(…)]]` and macros that make pragmas;
`!$omp`, in fixed form also `c$omp` and `*$omp`, their continuations, and conditional compilation (`!$`). A directive in
a comment or string is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

WIDTH = 72  # columns of a line in fixed form


class Token(NamedTuple):
    """kind: comment, string, name, number, space, other, or one of

    sentinel: what opens a directive, without its first word in C (`#`, `_Pragma("`) and with it in Fortran (`!$omp`)
    close: what ends a directive within a line (`")` of `_Pragma`)
    layout: what joins lines (`&`, a backslash before the line's end, the first six columns of a continuation line)
    """

    kind: str
    text: str


class Line(NamedTuple):
    """A logical line: tokens up to a line break that nothing continues, with that break.

    number: of its first physical line, from 0
    """

    number: int
    tokens: list[Token]

    @property
    def directive(self) -> bool:
        """Whether it is a directive, not code that `!$` compiles under a condition."""
        return any(kind == "sentinel" and not text.endswith("$") for kind, text in self.tokens)


# --- patterns: each alternative is a kind of token, the first that fits counts ---

_SPLICE = r"(?:\\|\?\?/)[ \t]*\n"
_GAP = rf"(?:[ \t]|{_SPLICE}|/\*.*?\*/)*"
_C = re.compile(
    rf"(?P<comment>//(?:{_SPLICE}|[^\n])*|/\*.*?(?:\*/|\Z))"
    rf"|(?P<sentinel>(?:\#|%:|\?\?=)(?={_GAP}pragma\b{_GAP}ompx?\b))"
    r"|(?P<string>(?:u8|[uUL])?R\"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)\""
    r"|(?:u8|[uUL])?(?:\"(?:\\.|[^\"\\\n])*\"|'(?:\\(?:[0-7]{1,3}|x[0-9A-Fa-f]+|.)|[^'\\\n]){1,4}'))"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d(?:(?<=[eEpP])[+-]|'?[\w.])*)"
    rf"|(?P<layout>{_SPLICE})|(?P<space>\n|[^\S\n]+)|(?P<other>.)",
    re.DOTALL | re.MULTILINE,
)
# directives inside a line: what opens them, their words, what closes them
_NESTED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*?"
_INLINE = re.compile(
    r"(?P<open>_Pragma\s*\(\s*L?\"\s*)(?P<text>ompx?\b(?:\\.|[^\"\\\n])*)(?P<close>\"\s*\))"
    rf"|(?P<call>[A-Za-z_]\w*\s*\(\s*)(?P<words>ompx?[ \t]+[A-Za-z]{_NESTED})(?P<end>\))"
    r"|(?P<begin>\[\[\s*(?:using\s+)?(?=omp\s*:))(?P<within>(?:[^\]]|\](?!\]))*)(?P<finish>\]\])"
)
_QUOTED = re.compile(
    r"(?P<call>[A-Za-z_]\w*\s*\(\s*\"\s*)(?P<words>ompx?[ \t]+[A-Za-z](?:\\.|[^\"\\\n])*)(?P<end>\"\s*\))"
)
_MAKER = re.compile(r"(?:#|%:|\?\?=)[ \t]*define[ \t]+([A-Za-z_]\w*)\([^\n]*\b_Pragma\b")

_FORTRAN = (
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\d+(?:\.\d+)?\w*)"
    r"|(?P<layout>&)|(?P<space>\n|[^\S\n]+)|(?P<other>.)"
)
_OMP = r"\$(?i:ompx?|omx|acc)(?!\w)"
_FREE = re.compile(
    rf"(?P<sentinel>^[ \t]*!(?:{_OMP}|\$(?=[ \t&]))|^[cC*]{_OMP})"
    # a remark in the manner of fixed form: no statement of free form begins with c and two words
    r"|(?P<comment>![^\n]*|^[cC*][ \t]+[A-Za-z]+[,:;]?[ \t]+[A-Za-z][^\n]*)"
    r"|(?P<string>'(?:''|&[ \t]*\n(?:[ \t]*(?:![^\n]*)?\n)*[ \t]*&|[^'\n])*'"
    r"|\"(?:\"\"|&[ \t]*\n(?:[ \t]*(?:![^\n]*)?\n)*[ \t]*&|[^\"\n])*\")" + _FORTRAN,
    re.DOTALL | re.MULTILINE,
)
_FIXED = re.compile(
    rf"(?P<continued>^[cC*!]\$(?i:omp)[^\s0])|(?P<sentinel>^[cC*!](?:{_OMP}|\$(?=[ \d]{{3}}))|^[ \t]+!{_OMP})"
    r"|(?P<comment>^[cC*dD][^\n]*|(?<!^     )![^\n]*)|(?P<column>^     [^\s0])"
    r"|(?P<string>'(?:''|\n     [^\s0]|[^'\n])*'|\"(?:\"\"|\n     [^\s0]|[^\"\n])*\")" + _FORTRAN,
    re.DOTALL | re.MULTILINE,
)
# what stands right of column 72: a remark after two blanks, or the number of a card
_MARGIN = re.compile(rf"(?<=^[^\n]{{{WIDTH - 2}}}  )[^\n]+|(?<=^[^\n]{{{WIDTH - 1}}} )\w{{0,7}}\d[ \t]*$", re.MULTILINE)


def tokens(code: str, language: str) -> list[Token]:
    """The code as tokens whose texts join to the code again."""
    return list(_c(code) if language == "c" else _fixed(code) if is_fixed(code, language) else _free(code))


def is_fixed(code: str, language: str) -> bool:
    """Whether the language is Fortran in fixed form."""
    return language == "fixed" or (language == "fortran" and fixed_form(code))


def _c(code: str) -> Iterator[Token]:
    makers = set(_MAKER.findall(code))
    place = 0
    while found := _C.match(code, place):
        inline = None
        if found.lastgroup == "name":
            inline = _INLINE.match(code, place) or (_QUOTED.match(code, place) if found.group() in makers else None)
        elif found.group() == "[":
            inline = _INLINE.match(code, place)
        if inline is not None:
            yield from _inline(*filter(None, inline.groups()))
            place = inline.end()
            continue
        yield Token("string" if found.lastgroup == "mark" else str(found.lastgroup), found.group())
        place = found.end()


def _inline(opening: str, words: str, closing: str) -> Iterator[Token]:
    name = re.match(r"[A-Za-z_]\w*", opening)
    if name and name.group() != "_Pragma":  # a macro's name is one of the program's names
        yield Token("name", name.group())
        opening = opening[name.end() :]
    yield Token("sentinel", opening)
    yield from _c(words)
    yield Token("close", closing)


def _free(code: str) -> Iterator[Token]:
    return _scan(_FREE, code, 0, len(code))


def _fixed(code: str) -> Iterator[Token]:
    place = 0
    for margin in _MARGIN.finditer(code):
        yield from _scan(_FIXED, code, place, margin.start())
        yield Token("comment", margin.group())
        place = margin.end()
    yield from _scan(_FIXED, code, place, len(code))


def _scan(pattern: re.Pattern[str], code: str, place: int, end: int) -> Iterator[Token]:
    while place < end and (found := pattern.match(code, place, end)):
        if found.group() == "#" and not code[code.rfind("\n", 0, place) + 1 : place].strip():
            line = code.find("\n", place, end)
            yield from _c(code[place : line if line >= 0 else end])  # a line for the C preprocessor
            place = line if line >= 0 else end
            continue
        kind = {"continued": "sentinel", "column": "layout"}.get(str(found.lastgroup), str(found.lastgroup))
        yield Token(kind, found.group())
        place = found.end()


_FIXED_SENTINEL = re.compile(r"[cC*]\$(?:omp|[ \d]{3})", re.IGNORECASE)
_REMARK = re.compile(r"\*|[cC](?:$|\s+(?![=(%])|[^\w\s=(%$])")
_CONTINUED = re.compile(r"(?:     |[!]\$(?i:omp))[^\s\w!][^&\n]*&?$|     [1-9]\D")
_COLUMNS = re.compile(r"[cCdD#*\t]|\s*!|[ \d]{5}[ 0]|[ \d]{0,4}\t|[ \d]{1,5}$")
_FREE_END = re.compile(r"^(?!\s*![^$])(?:[^!]|!\$)*&[ \t]*(?:![^\n]*)?$")


def fixed_form(code: str) -> bool:
    """Whether Fortran code is in fixed form by its looks.

    Something only fixed form has must be there (a comment, a sentinel or a continuation in its columns), and nothing
    that it forbids: a statement left of column 7, a line that ends in `&`. The first line may have lost its
    indentation.
    """
    seen = False
    for number, line in enumerate(code.split("\n")):
        if _FIXED_SENTINEL.match(line) or _REMARK.match(line) or _CONTINUED.match(line):
            seen = True
        elif _FREE_END.search(line[:WIDTH]) or (number and line.strip() and not _COLUMNS.match(line)):
            return False
    return seen


def indented(code: str) -> str:
    """Fixed form whose first line gets back the indentation that it may have lost in a prompt."""
    lost = re.match("[A-Za-z]", code) and not (_FIXED_SENTINEL.match(code) or _REMARK.match(code))
    return " " * 6 + code if lost else code


def lines(code: str, language: str) -> list[Line]:
    """The code as logical lines; their tokens' texts join to the code again."""
    fixed = is_fixed(code, language)
    stream = tokens(code, "fixed" if fixed else "free" if language == "fortran" else language)
    found: list[Line] = []
    current: list[Token] = []
    number = start = 0
    for place, token in enumerate(stream):
        current.append(token)
        number += token.text.count("\n")
        if token.text == "\n" and token.kind == "space" and not _goes_on(stream, place, language, fixed):
            found.append(Line(start, current))
            current, start = [], number
    return [*found, Line(start, current)] if current else found


def _goes_on(stream: list[Token], place: int, language: str, fixed: bool) -> bool:
    """Whether the line break at `place` is inside a statement of Fortran."""
    if language == "c":
        return False
    if fixed:
        after = next((t for t in islice(stream, place + 1, None) if t.kind not in ("comment", "space")), None)
        return (
            after is not None and len(after.text) == 6 and after.kind in ("layout", "sentinel") and after.text[5] > " "
        )
    before = next(
        (t for t in map(stream.__getitem__, range(place - 1, -1, -1)) if t.kind not in ("comment", "space")), None
    )
    return before is not None and before.kind == "layout"


def has_directive(code: str, language: str) -> bool:
    """Whether the code has an OpenMP directive."""
    return first_directive(code, language) is not None


def first_directive(code: str, language: str) -> int | None:
    """The line of the first OpenMP directive, counted from 1 at line feeds; None where there is none."""
    number = 1
    for kind, text in tokens(code, language):
        if kind == "sentinel" and (language == "c" or re.search(r"\$om", text, re.IGNORECASE)):
            return number
        number += text.count("\n")
    return None


def fold(code: str) -> str:
    """Fixed form with lines of more than 72 columns continued on the next, where a token ends if there is one."""
    made = []
    for line in code.split("\n"):
        while len(line) > WIDTH:
            ends, place = [], 0
            for _, text in tokens(line, "fixed"):
                place += len(text)
                ends.append(place)
            cut = max((end for end in ends if 7 < end <= WIDTH), default=WIDTH)
            made.append(line[:cut])
            prefix = "!$omp&" if re.match(r"[cC*!]\$(?i:omp)", line) else "     &"
            line = prefix + line[cut:]
        made.append(line)
    return "\n".join(made)
