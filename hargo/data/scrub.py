"""Taking out of a program what tells its label without being part of it.

Program and module names of the source carry the label (`DRB100_task_reference_orig_no`), and so do a few comments,
strings and other names. Names are replaced consistently, so that what compiled still compiles; comments go; telling
strings become "text". Directives and numbers stay: labels depend on both (`safelen(4)`).
"""

from __future__ import annotations

import re

from hargo.data.grammar import WIDTH, Token, fold, indented, is_fixed, tokens
from hargo.data.programs import LABELS, LANGUAGES, take_apart, unwrap
from hargo.data.records import Row

# Words of a name: data_race_2, DataRaceYes, nodatarace.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TELLING_WORDS = frozenset(("yes", "yess", "no", "drb", "safe", "unsafe", "risky", "conflict"))
_TELLING_STARTS = ("race", "racy", "racing", "datarace", "norace", "nodatarace")
_TELLING_TEXT = re.compile(
    r"\b(?:data|no|race)[\s_-]*rac(?:e|es|y|ing)\b|\brac(?:e|es|y|ing)\b|\byes\b|\bno\b|\bDRB\d*|\b(?:un)?safe\b",
    re.IGNORECASE,
)
_LABEL_IN_NAME = re.compile(r"(yes|no)\d*(?:_|$)", re.IGNORECASE)
_PROGRAM = re.compile(r"^[ \t]*(?:end[ \t]*)?program[ \t]+([a-z]\w*)", re.IGNORECASE | re.MULTILINE)
_MODULE = re.compile(
    r"^[ \t]*(?:end[ \t]*)?module[ \t]+(?!(?:procedure|subroutine|function)\b)([a-z]\w*)", re.IGNORECASE | re.MULTILINE
)
_JOINED = re.compile(r"&[ \t]*\n(?:[ \t]*![^\n]*\n)*[ \t]*&?|\n     [^\s0]|\\[ \t]*\n")  # a string over several lines
_CONVERSION = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|L|z|j|t)?[diouxXeEfFgGaAcsp]")


def scrub(row: Row) -> Row:
    """The row with its program scrubbed and taken out of fences and quotes; rows of other tasks as they are."""
    language = LANGUAGES.get(row.task)
    if not language:
        return row
    before, code, after = take_apart(row.prompt)
    return Row(row.id, row.task, before + scrub_code(unwrap(code), language) + after, row.answer, row.meta)


def scrub_code(code: str, language: str) -> str:
    """The program without comments and telling names and strings. Scrubbing twice changes nothing more.

    Fixed form stays within its columns; its first line gets back the indentation that the words around it took.
    """
    fixed = is_fixed(code, language)
    if fixed:
        code, language = indented(code), "fixed"
    stream = tokens(code, language)
    names = _new_names(code, stream, language)
    result: list[Token] = []
    before = ""  # the last token that is not white space
    for kind, text in stream:
        new = text
        if (
            kind == "string"
            and telling_text(_JOINED.sub("", text))
            and not (before == "=" and text[1:-1].lower() in LABELS)
        ):
            new = _plain_string(text, language)  # an option such as advance='no' stays
        elif kind == "name":
            new = names.get(_key(text, language), text)
        result.append(Token(kind, new))
        before = before if kind == "space" else text
    clean = _without_comments(result)
    return fold(clean) if fixed and _widest(_without_comments(stream)) <= WIDTH else clean


def _widest(code: str) -> int:
    return max(map(len, code.split("\n")))


def unit_names(code: str) -> tuple[list[str], list[str]]:
    """Names of the Fortran programs and of the modules in the code, as written, in order of appearance."""
    return _PROGRAM.findall(code), _MODULE.findall(code)


def label_in_name(name: str) -> str | None:
    """The label a program name tells: its first `yes` or `no` before a number, an underscore or the end."""
    found = _LABEL_IN_NAME.search(name)
    return found.group(1).lower() if found else None


def telling_name(name: str) -> bool:
    """Whether a name speaks of races, yes or no, or numbers a DataRaceBench kernel."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return any(word in _TELLING_WORDS or word.startswith(_TELLING_STARTS) for word in words)


def telling_text(text: str) -> bool:
    """Whether a comment or string speaks of races, yes or no, or names a DataRaceBench kernel."""
    return bool(_TELLING_TEXT.search(text))


def _new_names(code: str, stream: list[Token], language: str) -> dict[str, str]:
    """Old name -> new name. Fortran folds case, so its old names are in lower case here."""
    present = list(dict.fromkeys(text for kind, text in stream if kind == "name"))
    programs, modules = unit_names(code) if language != "c" else ([], [])
    stems: dict[str, str] = {}
    for stem, old in (("prog", programs), ("mod", modules), ("name", filter(telling_name, present))):
        for name in old:
            stems.setdefault(_key(name, language), stem)
    taken = {name.lower() for name in present if _key(name, language) not in stems}
    return {name: _free(stem, taken) for name, stem in stems.items()}


def _free(stem: str, taken: set[str]) -> str:
    number = 1
    while f"{stem}{number}" in taken:
        number += 1
    taken.add(f"{stem}{number}")
    return f"{stem}{number}"


def _key(name: str, language: str) -> str:
    return name if language == "c" else name.lower()


def _plain_string(text: str, language: str) -> str:
    quote = text[-1]
    if language != "c":
        return f"{quote}text{quote}"
    if quote == "'":
        return text
    prefix, _, text = text.partition(quote)
    quote = prefix.rstrip("R") + quote
    ending = "\\n" if text.endswith('\\n"') else ""  # keep what printf needs for its arguments
    return quote + "".join(["text", *(f" {c}" for c in _CONVERSION.findall(text)), ending]) + quote[-1]


def _without_comments(stream: list[Token]) -> str:
    """A comment leaves a blank, a line of nothing but comments goes."""
    lines: list[str] = [""]
    commented = [False]
    for kind, text in stream:
        if kind == "comment":
            lines[-1] += " "
            commented[-1] = True
            continue
        first, *more = text.split("\n")
        lines[-1] += first
        lines += more
        commented += [False] * len(more)
    kept = [
        (line.rstrip() if cut else line) for line, cut in zip(lines, commented, strict=True) if line.strip() or not cut
    ]
    return "\n".join(kept)
