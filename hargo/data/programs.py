"""Finding the program in a data-race prompt, and its tokens.

Prompts are a program in a frame of words ("Given the code snippet: ..., help me detect ..."). A scanner of a few
regular expressions is enough: nothing here needs the grammar of C or Fortran, only where comments, strings,
directives and names are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

#: task -> language of its programs; tasks not named here are plain text
LANGUAGES: dict[str, str] = {"race_c": "c", "race_fortran": "fortran"}

LABELS = ("yes", "no")

_FRAME = re.compile(
    r"(?P<before>\s*Given (?:the|a|an|this)\b[^\n:]{0,40}:[ ]?)(?P<code>.*?)"
    r"(?P<after>(?:,|\n)\s*(?:help me detect|(?:will|does|is|can|would)\b[^\n]*data race)[^\n]*)",
    re.DOTALL | re.IGNORECASE,
)
_OPENING = re.compile(r"(?:\d*'|```|`|\"|\*\*)")
_LANGUAGE_TAG = re.compile(r"(?:c\+\+|cpp|c|fortran|f90|f95)[ \t]*\n", re.IGNORECASE)
_WRAPPING = re.compile(r"\d+(?=')|\d+[ \t]*\n|['`\"\s]+|\*\*")
_CLOSING = re.compile(r"(?:['`\"\s]|\*\*)+\Z")

_TOKENS = {
    "c": re.compile(
        r"(?P<comment>//[^\n]*|/\*.*?\*/)"
        r"|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])')"
        r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d[\w.]*)|(?P<space>\s+)|(?P<other>.)",
        re.DOTALL,
    ),
    "fortran": re.compile(
        r"(?P<comment>!(?!\$)[^\n]*)"
        r"|(?P<string>'(?:''|[^'\n])*'|\"(?:\"\"|[^\"\n])*\")"
        r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\d+(?:\.\d+)?\w*)|(?P<space>\s+)|(?P<other>!\$|.)",
        re.DOTALL,
    ),
}
_DIRECTIVE = {"c": re.compile(r"#\s*pragma\s+omp\b"), "fortran": re.compile(r"!\$omp\b", re.IGNORECASE)}

# Words that carry meaning in themselves; every other name is masked when programs are compared.
_WORDS = """
    if for else while do int float double char void return const static sizeof struct unsigned long short bool
    true false include define pragma omp parallel sections section single master critical barrier atomic flush
    ordered task taskwait taskgroup taskloop simd target teams distribute map to from tofrom alloc threadprivate
    private firstprivate lastprivate shared default none reduction schedule dynamic guided auto runtime collapse
    nowait num_threads copyin copyprivate depend in out inout mutexinoutset safelen read write update capture
    seq_cst acquire release main printf program end module use implicit integer real logical character dimension
    allocatable allocate deallocate subroutine function call contains print then parameter kind value pointer
    intent result recursive interface type stdio h stdlib omp_lib omp_h
"""
KEYWORDS = frozenset(_WORDS.split())


class Framed(NamedTuple):
    """A prompt taken apart: `before + code + after` is the prompt; without a known frame all of it is code."""

    before: str
    code: str
    after: str


class Token(NamedTuple):
    kind: str  # comment, string, name, number, space or other
    text: str


def take_apart(prompt: str) -> Framed:
    found = _FRAME.fullmatch(prompt)
    return Framed(found["before"], found["code"], found["after"]) if found else Framed("", prompt, "")


def wrapped(code: str) -> bool:
    """Whether the code opens with a fence, a quote or `**`, perhaps after a number."""
    return bool(_OPENING.match(code.strip()))


def unwrap(code: str) -> str:
    """The code without the fences, quotes, `**`, language tags and item numbers around it."""
    start = 0
    while found := _WRAPPING.match(code, start) or (start and _LANGUAGE_TAG.match(code, start)):
        start = found.end()
    return _CLOSING.sub("", code[start:])


def tokens(code: str, language: str) -> list[Token]:
    """The code as tokens whose texts join to the code again."""
    return [Token(str(m.lastgroup), m.group()) for m in _TOKENS[language].finditer(code)]


def has_directive(code: str, language: str) -> bool:
    """Whether the code has an OpenMP directive."""
    return bool(_DIRECTIVE[language].search(code))


def mask(code: str, language: str) -> list[str]:
    """The code's tokens with names, numbers and strings masked; comments and white space left out, case folded.

    Two programs that differ in names, sizes and layout only are the same after masking.
    """
    masked = []
    for kind, text in tokens(unwrap(code), language):
        if kind == "name":
            lower = text.lower()
            masked.append(lower if lower in KEYWORDS else "v")
        elif kind in ("number", "string"):
            masked.append(kind[0])
        elif kind == "other":
            masked.append(text)
    return masked
