"""Finding the program in a data-race prompt: a frame of words ("Given the code snippet: ..., help me detect ...")."""

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


class Framed(NamedTuple):
    """A prompt taken apart: `before + code + after` is the prompt; without a known frame all of it is code."""

    before: str
    code: str
    after: str


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
    rest = code[start:]
    closing = _CLOSING.search(rest)
    if closing is None:
        return rest
    # a quote that nothing opened ends a string of the program
    kept = max((i + 1 for i, c in enumerate(closing.group()) if c in "'\"" and c not in code[:start]), default=0)
    return rest[: closing.start() + kept]
