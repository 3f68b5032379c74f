"""Rows of one's own: a file of JSON lines, or a folder of such files, whose columns a study may name.

A line is an object with a prompt and an answer. A study with several tasks needs the column `task` too. Optional are
`id`, by default `<task>/<number of the line>`, `family` (rows that succeed or fail together) and `split` (train or
eval), which the protocol `given` asks for. Other columns are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hargo.config.options import DataOptions
from hargo.data.records import Row, check_text, kind
from hargo.errors import UserError
from hargo.io import read_jsonl

#: rows may be of any task, so a study has to name its tasks
TASKS = None

SIDES = ("train", "eval")


def load(options: DataOptions, tasks: list[str]) -> list[Row]:
    """The rows of `tasks`, in the order of files and lines.

    UserError naming file, row, key and fix for a faulty row.
    """
    columns = options.columns.model_dump()
    only = tasks[0] if len(tasks) == 1 else None
    rows: list[Row] = []
    for path in files(Path(str(options.path))):
        for number, value in enumerate(read_jsonl(path), start=1):
            row = _row(value, columns, only, number, f"{path}, row {number}")
            if row.task in tasks:
                rows.append(row)
    if options.protocol == "given":
        for row in rows:
            if "split" not in row.meta:
                raise UserError(
                    f"{row.meta['source_row']}: protocol 'given' needs the column {columns['split']!r} with train or "
                    "eval; add it, or choose the protocol strict"
                )
    return rows


def files(path: Path) -> list[Path]:
    """The file itself, or those ending in .jsonl in a folder; UserError where there are none."""
    found = [path] if path.is_file() else sorted(path.glob("*.jsonl"))
    if not found:
        raise UserError(f"data.path: {path} is neither a file of JSON lines nor a folder of files ending in .jsonl")
    return found


def _row(value: Any, columns: dict[str, str], only: str | None, number: int, where: str) -> Row:
    if not isinstance(value, dict):
        raise UserError(f"{where}: is {kind(value)}, not an object; write one object a line")
    texts = dict(_texts(value, columns, where))
    for key in ("prompt", "answer"):
        if key not in texts:
            raise UserError(
                f"{where}: key {columns[key]!r} is missing; add it, or name the column with data.columns.{key}"
            )
    task = texts.get("task", only)
    if task is None:
        raise UserError(f"{where}: key {columns['task']!r} is missing, and the study has several tasks; add it")
    if texts.get("split", SIDES[0]) not in SIDES:
        raise UserError(f"{where}: key {columns['split']!r} is {texts['split']!r}; write train or eval")
    meta: dict[str, Any] = {key: texts[key] for key in ("family", "split") if key in texts}
    name = texts.get("id", f"{task}/{number:05d}")
    return Row(name, task, texts["prompt"], texts["answer"], {**meta, "source_row": where})


def _texts(value: dict[str, Any], columns: dict[str, str], where: str) -> Iterator[tuple[str, str]]:
    """What a row has of the columns, checked to be text."""
    for key, column in columns.items():
        if column in value:
            if not isinstance(value[column], str):
                raise UserError(f"{where}: key {column!r} holds {kind(value[column])}, not a string; write it as one")
            check_text(value[column], f"{where}: key {column!r}")
            yield key, value[column]
