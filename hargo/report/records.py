"""Reads and checks the records of a study: a damaged one is reported in one line that names file and row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from hargo.errors import UserError
from hargo.io import read_json, read_jsonl

_QUANTILES = 7


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def steps(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics.jsonl. A figure that is not finite is left out, as if it had not been logged."""
    records = []
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
                raise UserError(f"{where}: {key!r} is not a figure of a step; delete the row or train this model again")
            if all(item is not None and math.isfinite(item) for item in numbers):
                kept[key] = value
        records.append(kept)
    return records


def mapping(path: Path) -> dict[str, Any]:
    """A JSON file that must hold an object, such as run.json."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: not a JSON object; create it again")
    return value
