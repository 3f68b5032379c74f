"""Programs that mean the same: other names, other order of declarations, other sizes.

A model that reads programs answers them alike; one that remembers them may not. Nothing here parses C or Fortran. Each
change is made only where a few strict patterns see that it is safe, and a program without such a place is left out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

from hargo.data.grammar import WIDTH, Line, fold, is_fixed, lines, tokens
from hargo.data.programs import LANGUAGES, take_apart
from hargo.data.records import Row
from hargo.data.roles import C_WORDS, DIRECTIVE_WORDS, FORTRAN_WORDS, declared
from hargo.data.scrub import unit_names

_TYPE_WORDS = "int float double char long short unsigned signed void bool size_t omp_lock_t omp_nest_lock_t struct"
_QUALIFIER_WORDS = "const static volatile register extern restrict inline"
_SPECIFIER_WORDS = "len stat iostat unit file fmt size err errmsg status form access action mold source"
_NEW_NAMES = """
    acc base bin buf cell col cur dat dst elem field first fld grid head idx item lane left lim local mid node num
    outer part pos prev right row scale seg slot span src start step store tail temp term total unit vec weight wide
"""
_C_TYPES = frozenset(_TYPE_WORDS.split())
_QUALIFIERS = frozenset(_QUALIFIER_WORDS.split())
_NAMES = _NEW_NAMES.split()
# Fortran's specifiers (`len=80`) share their names with variables
_SPECIFIERS = frozenset(_SPECIFIER_WORDS.split())
_LARGE = 16
_NEAR = 2
_COUNTING = re.compile(r"\b(?:safelen|simdlen|num_threads|schedule|dist_schedule|grainsize|num_tasks|aligned)\b", re.I)
_C_DECLARATION = re.compile(
    r"(?P<head>\s*(?:(?:static|const|unsigned|signed|long|short)\s+)*"
    r"(?:int|float|double|char|long|short|unsigned|size_t|bool|omp_lock_t)\s+)(?P<list>[^;(){}]+);\s*$"
)
_FORTRAN_DECLARATION = re.compile(
    r"(?P<head>\s*(?:integer|real|double\s+precision|logical|complex)\b(?:(?!parameter)[^:!'\"])*::\s*)(?P<list>[^:!'\"&]+)$",
    re.IGNORECASE,
)
_PROCEDURE = re.compile(
    r"^[ \t]*(?:(?:recursive|pure|elemental)[ \t]+)*(?:\w+(?:\([^)]*\))?[ \t]+)?"
    r"(?:subroutine|function)[ \t]+([a-z]\w*)",
    re.IGNORECASE | re.MULTILINE,
)
_SIMPLE = re.compile(r"\**\s*[A-Za-z_]\w*(?:\s*\[[^\]]*\])*(?:\s*\([^()]*\))?(?:\s*=\s*[-+]?\d[\w.]*)?")
_NAME = re.compile(r"[A-Za-z_]\w*")


def perturb(row: Row, kind: str) -> Row | None:
    """The row with its program changed in one of `KINDS`; None where that cannot be done.

    The same row gets the same change every time.
    """
    language = LANGUAGES[row.task]
    before, code, after = take_apart(row.prompt)
    changed = KINDS[kind](code, language, random.Random(f"perturb/{kind}/{row.id}"))
    return replace(row, prompt=before + changed + after) if changed is not None and changed != code else None


def rename(code: str, language: str, rng: random.Random) -> str | None:
    """Other names for the variables, functions and constants that the program declares; `main` stays."""
    stream = tokens(code, language)
    key = (lambda name: name.lower()) if language == "fortran" else (lambda name: name)
    names = _declared_c(code) if language == "c" else _declared_fortran(code)
    numbers = [text for kind, text in stream if kind == "number"]
    kept = FORTRAN_WORDS | _SPECIFIERS if language == "fortran" else C_WORDS
    known = dict.fromkeys(
        name
        for name in map(key, names)
        if name not in kept | DIRECTIVE_WORDS and not any(text.lower().endswith(f"_{name}") for text in numbers)
    )
    taken = {text.lower() for kind, text in stream if kind == "name"}
    free = [name for name in _NAMES if name not in taken]
    rng.shuffle(free)
    if len(free) < len(known):
        free += [name for i in range(2, 9) for stem in _NAMES if (name := f"{stem}{i}") not in taken]
    new = dict(zip(known, free, strict=False))
    if not new or len(new) < len(known):
        return None
    parts = [
        new.get(key(text), text) if kind == "name" and not included else text
        for line in lines(code, language)
        for included in [_command(line) == "include"]  # words of an #include are no names of the program
        for kind, text in line.tokens
    ]
    changed = "".join(parts)
    return fold(changed) if is_fixed(code, language) and max(map(len, code.split("\n"))) <= WIDTH else changed


def _command(line: Line) -> str | None:
    """What a line tells the C preprocessor (`include`, `define`, `if`, ...); None for other lines."""
    stream = [text for kind, text in line.tokens if kind not in ("space", "comment", "layout")]
    return stream[1] if len(stream) > 1 and stream[0] in ("#", "%:", "??=") else None


def _declared_c(code: str) -> list[str]:
    """Names after a type (variables, parameters, functions, fields), and those of `#define`."""
    found: list[str] = []
    stream = [(k, t) for k, t in tokens(code, "c") if k not in ("space", "comment")]
    for i, (kind, text) in enumerate(stream):
        if kind == "name" and text == "define" and i and stream[i - 1][1] == "#" and i + 1 < len(stream):
            found.append(stream[i + 1][1])
        if kind != "name" or text not in _C_TYPES or (i and stream[i - 1][1] in _C_TYPES):
            continue
        j, depth, expecting = i + 1, 0, True
        while j < len(stream):
            kind, text = stream[j]
            if depth == 0 and expecting:
                if kind == "name" and (text in _C_TYPES or text in _QUALIFIERS):
                    pass
                elif kind == "name":
                    found.append(text)
                    expecting = False
                    if j + 1 < len(stream) and stream[j + 1][1] == "(":
                        break
                elif text != "*":
                    break
            elif text in "([{":
                depth += 1
            elif text in ")]}":
                depth -= 1
                if depth < 0:
                    break
            elif depth == 0 and text == ",":
                if j + 1 < len(stream) and stream[j + 1][1] in (_C_TYPES | _QUALIFIERS):
                    break  # the next parameter of a function
                expecting = True
            elif depth == 0 and text == ";":
                break
            j += 1
    if not re.search(r"\bmain\s*\(", code):
        found += _undeclared_c(code)
    return [name for name in found if name != "main"]


def _undeclared_c(code: str) -> list[str]:
    """Variables of a fragment, which nobody declares: names that are neither called nor types nor fields."""
    stream = [
        token
        for line in lines(code, "c")
        if not _command(line)
        for token in line.tokens
        if token.kind not in ("space", "comment", "layout")
    ]
    found = []
    for (_, before), (kind, text), (after_kind, after) in zip(
        [("", ""), *stream], stream, [*stream[1:], ("", "")], strict=False
    ):
        called_or_type = after == "(" or after_kind == "name" or text in _C_TYPES or text.endswith("_t")
        if kind == "name" and not called_or_type and before not in (".", ">") and not text.isupper():
            found.append(text)
    return found


def _declared_fortran(code: str) -> list[str]:
    """Names of variables, and those of programs, modules, subroutines and functions."""
    programs, modules = unit_names(code)
    found = [*programs, *modules, *_PROCEDURE.findall(code)]
    return [*found, *(name for line in lines(code, "fortran") for name in declared(line))]


def reorder(code: str, language: str, rng: random.Random) -> str | None:
    """Names of one declaration, and neighbouring declarations, in another order, where none refers to another."""
    pattern = _C_DECLARATION if language == "c" else _FORTRAN_DECLARATION
    text = code.split("\n")
    whole = {line.number for line in lines(code, language) if "".join(t.text for t in line.tokens).count("\n") <= 1}
    start = 0
    while start < len(text):
        end = start
        while end < len(text) and end in whole and _independent(text[start : end + 1], pattern):
            end += 1
        if end > start:
            block = [_shuffled(line, pattern, rng) for line in text[start:end]]
            rng.shuffle(block)
            text[start:end] = block
        start = max(end, start + 1)
    return "\n".join(text)


def _independent(block: list[str], pattern: re.Pattern[str]) -> bool:
    """Whether these lines only declare simple things, none of which needs a name that another of them declares."""
    declared: list[str] = []
    used: list[str] = []
    for line in block:
        found = pattern.match(line)
        items = _split(found["list"]) if found else []
        if not items or not all(_SIMPLE.fullmatch(item.strip()) for item in items):
            return False
        for item in items:
            names = [name.lower() for name in _NAME.findall(item)]
            declared.append(names[0])
            used += names[1:]
        used += [name.lower() for name in _NAME.findall(found["head"])] if found else []
    return not set(declared) & set(used) and len(set(declared)) == len(declared)


def _shuffled(line: str, pattern: re.Pattern[str], rng: random.Random) -> str:
    found = pattern.match(line)
    assert found is not None
    items = [item.strip() for item in _split(found["list"])]
    rng.shuffle(items)
    return line[: found.start("list")] + ", ".join(items) + line[found.end("list") :]


def _split(text: str) -> list[str]:
    """At commas outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def resize(code: str, language: str, rng: random.Random) -> str | None:
    """The largest size of the program, and what is within 2 of it (`n - 1`), made larger by the same even number.

    Smaller numbers stay: whether `i + 50` meets `i` cannot change when the arrays and loops grow. Left out are programs
    whose largest number counts threads, chunks or lanes, and Fortran with statement labels.
    """
    plain = re.compile(r"\d+")
    if language == "fortran" and re.search(r"^[ \t]*\d", code, re.MULTILINE):
        return None
    values = [int(text) for kind, text in tokens(code, language) if kind == "number" and plain.fullmatch(text)]
    largest = max(values, default=0)
    if not _LARGE <= largest <= 10**6:
        return None
    if any(largest - _NEAR <= value < _LARGE for value in values):
        return None
    step = 2 * rng.randint(2, max(2, min(32, largest // 4)))
    parts = []
    for line in lines(code, language):
        conditional = _command(line) not in (None, "define", "pragma")
        counting = line.directive and _COUNTING.search("".join(text for _, text in line.tokens))
        for kind, text in line.tokens:
            if kind == "number" and not conditional and plain.fullmatch(text) and int(text) >= largest - _NEAR:
                if counting:
                    return None
                text = str(int(text) + step)
            parts.append(text)
    return "".join(parts)


#: name -> change
KINDS: dict[str, Callable[[str, str, random.Random], str | None]] = {
    "rename": rename,
    "reorder": reorder,
    "resize": resize,
}
