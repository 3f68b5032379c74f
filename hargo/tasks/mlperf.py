"""Factual questions on MLPerf result tables: the answer is a number, a name or a short list.

The reward has five tiers (1, .5, .2, .1, 0). The evaluation calls an answer right when it deserves .5,
and grades it with code of its own: the reward searches texts with regular expressions, the judge compares
sequences of tokens. Both take texts apart with `hargo.tasks.values`, which knows nothing of grades.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from hargo.tasks.base import Measure, Task, Verdict
from hargo.tasks.values import alone, normalise, values

_NUMBER = re.compile(
    r"([-+]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:e[-+]?[0-9]{1,3}(?!\w))?)"
    r"(?:\s*(%|[^\W\d_][^\W\d]*(?: [^\W\d]+){0,2}))?"
)
# a minus or point before a number belongs to it
_WORD = re.compile(r"(?:(?<![\w.])(?:-?\.|-)(?=[0-9]))?\w+(?:[.\-/–]\w+)*")
_STOP = frozenset(
    _WORD.findall("a an and are as at by for from has have if in is it its of on or that the to was with")
)


def reward(outputs: Sequence[str], references: Sequence[str]) -> list[float | None]:
    """Tiers, highest first; what the paper leaves open is marked (choice).

    1.0  The same text, or the same values in any order and nothing else (choice). Numbers are compared as
         numbers, without thousands commas and units (`1,024 GB` is `1024`), unless both have units that begin
         differently.
    0.5  The reference has several values and at least one of them, though not exactly all, stands in the
         answer, which is at most twice as long as the reference plus eight words (choice: a list of
         everything earns nothing).
    0.2  More than 70 % of the reference's keywords occur: distinct words without stop words (choice).
    0.1  More than 40 % of them.
    0.0  Otherwise, and always for an empty answer.
    """
    return [_reward(output, reference) for output, reference in zip(outputs, references, strict=True)]


def _reward(output: str, reference: str) -> float:
    said, right = normalise(output), normalise(reference)
    if not said or not right:
        return 0.0
    if said == right:
        return 1.0
    wanted, given = values(reference), values(output)
    if len(given) == len(wanted) and all(any(_same(a, b) for b in given) for a in wanted):
        return 1.0
    short = len(said.split()) <= 2 * len(right.split()) + 8
    if len(wanted) > 1 and short and any(_stands(value, said, given) for value in wanted):
        return 0.5
    keywords = set(_WORD.findall(right)) - _STOP
    share = len(keywords & set(_WORD.findall(said))) / len(keywords) if keywords else 0.0
    return 0.2 if share > 0.7 else 0.1 if share > 0.4 else 0.0


def _same(a: str, b: str) -> bool:
    """Equal as text, or as numbers once commas and units are gone."""
    if a == b:
        return True
    first, second = _NUMBER.fullmatch(a), _NUMBER.fullmatch(b)
    if not first or not second:
        return False
    units = first.group(2), second.group(2)
    if units[0] and units[1] and units[0][0] != units[1][0]:
        return False
    return Decimal(first.group(1).replace(",", "")) == Decimal(second.group(1).replace(",", ""))


def _stands(value: str, said: str, given: list[str]) -> bool:
    """Whether `value` stands by itself in the answer, or equals one of its values as a number."""
    return bool(alone(value).search(said)) or any(_same(value, item) for item in given)


# --- evaluation: nothing below is called by the reward, and nothing below calls it ---

# a number that no word, number or id goes on with; a word or id; any other sign
_PIECE = re.compile(
    r"(?<![\w.])(?P<number>[-+]?(?:(?:[0-9]+(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:e[-+]?[0-9]{1,3})?)"
    r"(?!\w|[.\-/–]\w|,[0-9]{3}(?![0-9]))"
    r"|(?:(?<![\w.])\.(?=[0-9]))?\w+(?:[.\-/–]\w+)*|[^\w\s,;.\"'`*]"
)


def judge(outputs: Sequence[str], references: Sequence[str]) -> list[Verdict]:
    """Right when the answer is worth .5 or more: all values, or at least one of several in a short answer.

    scores: `em`, the reference stands in the answer between regular-expression boundaries, case ignored;
    `em_whole`, the answer is the reference and nothing more.
    """
    verdicts = []
    for output, reference in zip(outputs, references, strict=True):
        said = normalise(output)
        em = bool(normalise(reference)) and bool(alone(normalise(reference)).search(said))
        whole = bool(said) and said == normalise(reference)
        scores = {"em": float(em), "em_whole": float(whole)}
        verdicts.append(Verdict(said or None, whole or _deserves_half(output, reference), scores))
    return verdicts


def _deserves_half(output: str, reference: str) -> bool:
    said = _pieces(output)
    if not said:
        return False
    wanted = [_pieces(value) for value in values(reference)]
    given = [_pieces(value) for value in values(output)]
    if len(wanted) == 1:
        return len(given) == 1 and _agree(given[0], wanted[0])
    if len(output.split()) > 2 * len(reference.split()) + 8:
        return len(given) == len(wanted) and all(any(_agree(g, w) for g in given) for w in wanted)
    return any(_contains(said, value) or any(_agree(g, value) for g in given) for value in wanted)


def _pieces(text: str) -> list[str]:
    """Tokens of a text; numbers are written in one way, so that equal numbers are equal tokens."""
    return [_plain(m["number"]) if m["number"] else m.group() for m in _PIECE.finditer(normalise(text))]


def _plain(number: str) -> str:
    """A number without commas, exponent and needless zeros or sign: `+1,024.50` is `1024.5`."""
    digits = format(Decimal(number.replace(",", "")), "f")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return "0" if digits == "-0" else digits


def _contains(sequence: list[str], part: list[str]) -> bool:
    """Whether `part` stands in `sequence` as a contiguous run."""
    size = len(part)
    return size > 0 and any(sequence[at : at + size] == part for at in range(len(sequence) - size + 1))


def _agree(given: list[str], wanted: list[str]) -> bool:
    """Equal token by token, or equal numbers with at most a unit after each, which either may lack."""
    if given == wanted:
        return True
    amounts = [_amount(given), _amount(wanted)]
    if amounts[0] is None or amounts[1] is None:
        return False
    (number, unit), (other, other_unit) = amounts[0], amounts[1]
    return number == other and (not unit or not other_unit or unit[0] == other_unit[0])


def _amount(pieces: list[str]) -> tuple[Decimal, str] | None:
    match = re.fullmatch(r"([+-]? ?)((?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)) ?(%|[a-z]+(?: [a-z]+){0,2})?", " ".join(pieces))
    if not match:
        return None
    return Decimal(match.group(1).strip() + match.group(2)), match.group(3) or ""


TASK = Task(
    "mlperf",
    "MLPerf questions",
    max_new_tokens=64,
    reward=reward,
    judge=judge,
    measures=(
        Measure("em", "EM %", "em", percent=True),
        Measure("em_whole", "EM, nothing more %", "em_whole", percent=True, headline=False),
        Measure("avg_score", "AvgScore", decimals=4),
    ),
)
