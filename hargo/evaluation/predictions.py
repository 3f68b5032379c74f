"""A model's answers to the evaluation rows: one `Prediction` per row, with one answer or several.

A line of predictions.jsonl is a flat object: id, task, output, reference, reward (null where the answer cannot be
rewarded), parsed, correct, scores, tokens, truncated; then, only where there is something to say, choice, perturbed,
too_long and number. The answer is the first one. A row with several has them all, the first one too, in `answers`,
each with output, reward, parsed, correct, scores, tokens and truncated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from hargo.config.registry import TASKS
from hargo.config.study import unknown
from hargo.errors import UserError
from hargo.io import read_jsonl, write_jsonl
from hargo.tasks import Verdict


@dataclass(frozen=True, kw_only=True)
class Answer(Verdict):
    """One answer to a row with the task's judgement of it: see `Verdict` for parsed, correct and scores.

    reward: in [0, 1]; None where the answer cannot be rewarded
    tokens: generated; None where no language model answered
    truncated: whether it reached the limit on new tokens
    """

    output: str
    reward: float | None
    tokens: int | None = None
    truncated: bool = False

    @property
    def earned(self) -> float:
        """The reward as a number: an answer that cannot be rewarded (None, not finite) earns nothing."""
        return _finite(self.reward)

    def score(self, name: str) -> float:
        """A score of the judgement as a number; one that is absent or not finite counts as 0."""
        return _finite(self.scores.get(name))


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The answers of one model to one evaluation row: one of greedy decoding, several where they are sampled.

    choice: log-probabilities of `yes` and `no` at the first token of the answer, on yes/no tasks
    perturbed: kind of change to the program -> choice
    too_long: the row does not fit the model's context, which leaves it without an answer
    number: of a kernel of DataRaceBench
    """

    id: str
    task: str
    reference: str
    answers: tuple[Answer, ...]
    choice: Mapping[str, float] | None = None
    perturbed: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    too_long: bool = False
    number: int | None = None

    def __post_init__(self) -> None:
        assert self.answers, f"{self.id}: no answer"

    @property
    def first(self) -> Answer:
        """The answer that stands for the row where one is shown, or compared row by row."""
        return self.answers[0]

    def mean(self, value: Callable[[Answer], float]) -> float:
        """The mean of `value` over the answers."""
        return fmean(value(answer) for answer in self.answers)

    @classmethod
    def of(cls, record: Any) -> Prediction:
        """The prediction of a line of predictions.jsonl; a UserError says what is wrong with a damaged one."""
        problem = _problem(record)
        if problem:
            raise UserError(problem)
        return cls(
            id=record["id"],
            task=record["task"],
            reference=record["reference"],
            answers=tuple(_answer(one) for one in record.get("answers") or [record]),
            choice=record.get("choice"),
            perturbed=record.get("perturbed") or {},
            too_long=bool(record.get("too_long")),
            number=record.get("number"),
        )

    def record(self) -> dict[str, Any]:
        """Its line of predictions.jsonl; `of` takes it back."""
        first = _line(self.first)
        line = {"id": self.id, "task": self.task, "output": first.pop("output"), "reference": self.reference, **first}
        several = [_line(answer) for answer in self.answers] if len(self.answers) > 1 else None
        rest = {
            "choice": self.choice,
            "perturbed": self.perturbed or None,
            "too_long": self.too_long or None,
            "number": self.number,
            "answers": several,
        }
        return line | {key: value for key, value in rest.items() if value is not None}


def read(path: Path) -> list[Prediction]:
    """The predictions of a file. UserError names file, row and what to do where one is damaged."""
    predictions = []
    for number, record in enumerate(read_jsonl(path), start=1):
        try:
            predictions.append(Prediction.of(record))
        except UserError as error:
            raise UserError(f"{path}, row {number}: {error}; evaluate this model again") from None
    return predictions


def write(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write a file that `read` reads."""
    write_jsonl(path, (prediction.record() for prediction in predictions))


def _finite(value: float | None) -> float:
    return float(value) if value is not None and math.isfinite(value) else 0.0


def _answer(record: dict[str, Any]) -> Answer:
    values = {key: record[key] for key in _ANSWER}
    if values["reward"] is not None and not math.isfinite(values["reward"]):
        values["reward"] = None
    return Answer(**values)


def _line(answer: Answer) -> dict[str, Any]:
    return {key: getattr(answer, key) for key in _ANSWER}


#: key of an answer, in the order of the file -> what it may hold
_ANSWER: dict[str, tuple[type, ...]] = {
    "output": (str,),
    "reward": (int, float, type(None)),
    "parsed": (str, type(None)),
    "correct": (bool,),
    "scores": (dict,),
    "tokens": (int, type(None)),
    "truncated": (bool,),
}
_ROW: dict[str, tuple[type, ...]] = {"id": (str,), "task": (str,), "reference": (str,), **_ANSWER}
_WORDS = {str: "text", int: "a number", float: "a number", dict: "an object", bool: "true or false", type(None): "null"}


def _problem(row: Any) -> str | None:
    """What is wrong with a line, None where nothing is."""
    if problem := _wrong(row, _ROW):
        return problem
    if row["task"] not in TASKS:
        return unknown("task", row["task"], TASKS.names())
    answers = row.get("answers")
    if answers is not None:
        if not isinstance(answers, list) or not answers:
            return "'answers' is not a list of answers"
        for number, answer in enumerate(answers, start=1):
            if problem := _wrong(answer, _ANSWER):
                return f"answer {number}: {problem}"
        if any(answers[0][key] != row[key] for key in ("output", "parsed", "correct")):
            return "'answers' does not begin with the answer of the row"
    perturbed = row.get("perturbed") or {}
    if not isinstance(perturbed, dict):
        return "'perturbed' is not an object"
    for choice in (row.get("choice"), *perturbed.values()):
        if choice is not None and not _is_choice(choice):
            return "a choice is not a finite number for each of 'yes' and 'no'"
    return None


def _wrong(record: Any, keys: Mapping[str, Sequence[type]]) -> str | None:
    """What is wrong with the values of these keys, None where nothing is."""
    if not isinstance(record, dict):
        return "not an object"
    for key, kinds in keys.items():
        if key not in record:
            return f"no key {key!r}"
        value = record[key]
        if not isinstance(value, tuple(kinds)) or (isinstance(value, bool) and bool not in kinds):
            return f"{key!r} is not {' or '.join(dict.fromkeys(_WORDS[kind] for kind in kinds))}"
        if isinstance(value, str) and not _writable(value):
            return f"{key!r} contains half a surrogate pair, which cannot be written to a file"
    if not all(_number(value) for value in record["scores"].values()):
        return "'scores' contains something that is not a number"
    return None


def _is_choice(value: Any) -> bool:
    return isinstance(value, dict) and all(_number(value.get(k)) and math.isfinite(value[k]) for k in ("yes", "no"))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _writable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
