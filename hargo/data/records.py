"""The one record that every source yields and every later stage reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hargo.errors import UserError
from hargo.io import read_jsonl, write_jsonl


@dataclass(frozen=True)
class Row:
    """One instruction with its reference answer.

    id: unique and stable, `<task>/<number in the source>`, e.g. `race_c/00042`
    task: a name in `hargo.config.registry.TASKS`
    prompt: the user's message, as the source has it (no chat template)
    answer: the reference answer
    meta: what a source knows beyond that, e.g. `family`, `held_out`, `split`, `source_row`
    """

    id: str
    task: str
    prompt: str
    answer: str
    meta: dict[str, Any] = field(default_factory=dict)


def save_rows(path: str | Path, rows: list[Row]) -> None:
    write_jsonl(path, (asdict(row) for row in rows))


def load_rows(path: str | Path) -> list[Row]:
    """Read rows from JSON lines; a row with a missing or unknown field is an error naming file and line."""
    rows = []
    for number, value in enumerate(read_jsonl(path), start=1):
        try:
            rows.append(Row(**value))
        except TypeError as error:
            raise UserError(
                f"{path}, row {number}: {error}; a row has id, task, prompt, answer and optional meta"
            ) from None
    return rows
