"""The one record that every source yields and every later stage reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hargo.errors import UserError
from hargo.io import read_jsonl, write_jsonl

#: what every row has
FIELDS = ("id", "task", "prompt", "answer")


@dataclass(frozen=True)
class Row:
    """One instruction with its reference answer.

    id: unique and stable, `<task>/<number in the source>`, e.g. `race_c/00042`
    task: a name in `hargo.config.registry.TASKS`
    prompt: the user's message, as the source has it (no chat template)
    answer: the reference answer
    meta: what a source knows beyond that, e.g. `family` (rows that succeed or fail together), `held_out`, `split`,
        `source_row`
    """

    id: str
    task: str
    prompt: str
    answer: str
    meta: dict[str, Any] = field(default_factory=dict)


def save_rows(path: str | Path, rows: list[Row]) -> None:
    write_jsonl(path, (asdict(row) for row in rows))


def load_rows(path: str | Path) -> list[Row]:
    """Read rows from JSON lines; a row that is none, or an id that occurred before, is an error naming file and row."""
    try:
        values = read_jsonl(path)
    except RecursionError:
        raise UserError(f"{path}: nested too deeply to be rows") from None
    rows: list[Row] = []
    seen: dict[str, int] = {}
    for number, value in enumerate(values, start=1):
        row = _row(value, f"{path}, row {number}")
        if row.id in seen:
            raise UserError(
                f"{path}, row {number}: id {row.id!r} is also that of row {seen[row.id]}; rename one of them"
            )
        seen[row.id] = number
        rows.append(row)
    return rows


def _row(value: object, where: str) -> Row:
    shape = "a row has the texts id, task, prompt and answer and optionally the object meta"
    if not isinstance(value, dict):
        raise UserError(f"{where}: is {kind(value)}, not an object; {shape}")
    for key in FIELDS:
        if key not in value:
            raise UserError(f"{where}: key {key!r} is missing; {shape}")
        if not isinstance(value[key], str):
            raise UserError(f"{where}: key {key!r} holds {kind(value[key])}, not a text; {shape}")
        check_text(value[key], f"{where}: key {key!r}")
    for key in ("id", "task"):
        if not value[key].strip():
            raise UserError(f"{where}: key {key!r} is blank; {shape}")
    meta = value.get("meta", {})
    if not isinstance(meta, dict):
        raise UserError(f"{where}: key 'meta' holds {kind(meta)}, not an object; {shape}")
    unknown = sorted(map(str, value.keys() - {*FIELDS, "meta"}))
    if unknown:
        raise UserError(f"{where}: unknown key {unknown[0]!r}; {shape}")
    return Row(**value)


def check_text(text: str, where: str) -> None:
    """UserError where a text holds half a surrogate pair, which no tokenizer and no UTF-8 file takes."""
    half = next((place for place, character in enumerate(text) if "\ud800" <= character <= "\udfff"), None)
    if half is not None:
        raise UserError(
            f"{where} holds half a surrogate pair (\\u{ord(text[half]):04x}) at character {half}; "
            "write the whole pair or delete it"
        )


def kind(value: object) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null", bool: "a truth value"}
    return names.get(type(value), "a number")
