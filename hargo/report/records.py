"""Reading what a study left behind, checked: a damaged record is one line that names file and row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from hargo.config import TASKS
from hargo.config.study import unknown
from hargo.errors import UserError
from hargo.evaluation.metrics import Prediction
from hargo.io import read_json, read_jsonl

#: key of a prediction -> what it may hold
_KINDS: dict[str, tuple[type, ...]] = {
    "id": (str,),
    "task": (str,),
    "output": (str,),
    "reference": (str,),
    "reward": (int, float, type(None)),
    "parsed": (str, type(None)),
    "correct": (bool,),
    "scores": (dict,),
    "tokens": (int, type(None)),
    "truncated": (bool,),
}
_WORDS = {str: "text", int: "a number", float: "a number", dict: "an object", bool: "true or false", type(None): "null"}
_QUANTILES = 7


def predictions(path: Path) -> list[Prediction]:
    """The predictions of a file. A reward that is no finite number is None, as of an answer that cannot be rewarded."""
    rows: list[Prediction] = read_jsonl(path)
    for number, row in enumerate(rows, start=1):
        problem = _problem(row)
        if problem:
            raise UserError(f"{path}, row {number}: {problem}; evaluate this model again")
        if row["reward"] is not None and not math.isfinite(row["reward"]):
            row["reward"] = None
    return rows


def _problem(row: Any) -> str | None:
    """What is wrong with a prediction, None where nothing is."""
    if not isinstance(row, dict):
        return "not an object"
    for key, kinds in _KINDS.items():
        if key not in row:
            return f"no key {key!r}"
        if not isinstance(row[key], kinds) or (isinstance(row[key], bool) and bool not in kinds):
            return f"{key!r} is not {' or '.join(dict.fromkeys(_WORDS[kind] for kind in kinds))}"
        if isinstance(row[key], str) and not _writable(row[key]):
            return f"{key!r} holds half a surrogate pair, which no file can hold"
    if row["task"] not in TASKS:
        return unknown("task", row["task"], TASKS)
    if not all(_number(value) for value in row["scores"].values()):
        return "'scores' holds something that is not a number"
    perturbed = row.get("perturbed") or {}
    if not isinstance(perturbed, dict):
        return "'perturbed' is not an object"
    for choice in (row.get("choice"), *perturbed.values()):
        if choice is not None and not _is_choice(choice):
            return "a choice is not a finite number for each of 'yes' and 'no'"
    return None


def _is_choice(value: Any) -> bool:
    return isinstance(value, dict) and all(_number(value.get(k)) and math.isfinite(value[k]) for k in ("yes", "no"))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _writable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def steps(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics.jsonl. A figure that is no finite number is left out, as one that was not logged."""
    found = []
    for number, record in enumerate(read_jsonl(path), start=1):
        where = f"{path}, row {number}"
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            raise UserError(f"{where}: not a record of a step; delete the row or train this model again")
        kept = {key: value for key, value in record.items() if not key.startswith(("reward/", "dist/"))}
        for key in record.keys() - kept.keys():
            value = record[key]
            numbers = value if isinstance(value, list) else [value]
            if len(numbers) not in ((0, _QUANTILES) if key.startswith("dist/") else (1,)) or not all(
                item is None or _number(item) for item in numbers
            ):
                raise UserError(f"{where}: {key!r} is no figure of a step; delete the row or train this model again")
            if all(item is not None and math.isfinite(item) for item in numbers):
                kept[key] = value
        found.append(kept)
    return found


def mapping(path: Path) -> dict[str, Any]:
    """A JSON file that must hold an object, such as run.json."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: not a JSON object; make it again")
    return value
