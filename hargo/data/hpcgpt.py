"""The HPC-GPT instruction set (hub id `HPC-GPT/HPC`) from a folder that holds its JSON files.

Each file is a list of objects with the strings `instruction`, `input` and `output`. Rows are left as they are: the
prompt is the instruction, followed by a line break and the input where there is one, and the answer is the output.
"""

from __future__ import annotations

import math
from pathlib import Path

from hargo.config.options import DataOptions
from hargo.data.records import Row, check_text, kind
from hargo.errors import UserError
from hargo.io import read_json

#: task -> its file
FILES: dict[str, str] = {
    "race_c": "task2_c_c++.json",
    "race_fortran": "task2_fortran.json",
    "mlperf": "task1_ml_perf.json",
    "plp": "task1_plp.json",
}

#: the tasks that there are rows for
TASKS = tuple(FILES)

KEYS = ("instruction", "input", "output")


def load(options: DataOptions, tasks: list[str]) -> list[Row]:
    """Rows of `tasks` from the folder `options.path`, in the order of the files.

    Raises UserError naming file, row (0-based) and fix where the folder, a file or a key is missing or not readable.
    """
    folder = Path(options.path or "").expanduser()
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; set data.path to the folder that holds {', '.join(FILES.values())}")
    rows: list[Row] = []
    for task in tasks:
        if task not in FILES:
            raise UserError(
                f"{folder}: the HPC-GPT files have no task {task!r}; remove it from `tasks` or use another data.source"
            )
        rows += read_file(folder / FILES[task], task)
    return rows


def read_file(path: Path, task: str) -> list[Row]:
    """The rows of one file; ids are `<task>/<5-digit row>` with rows counted from 0."""
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; data.path must hold it for task {task!r}, or remove the task from `tasks`"
        )
    try:
        value = read_json(path)
    except RecursionError:
        raise UserError(f"{path}: nested too deeply to be a list of rows") from None
    if not isinstance(value, list):
        raise UserError(f"{path}: holds {kind(value)}, not a list of objects with {', '.join(KEYS)}")
    return [_row(path, task, number, item) for number, item in enumerate(value)]


def _row(path: Path, task: str, number: int, item: object) -> Row:
    where = f"{path}, row {number}"
    if not isinstance(item, dict):
        raise UserError(f"{where}: is {kind(item)}, not an object; fix it or delete the row")
    for key in KEYS:
        if key not in item:
            raise UserError(f'{where}: key {key!r} is missing; add it ("input" may be empty) or delete the row')
    for key in KEYS:
        # An answer such as 896 may come as a number; anything else is a damaged row.
        value = item[key]
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise UserError(f"{where}: key {key!r} holds {kind(value)}; make it a string or delete the row")
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(
                f"{where}: key {key!r} holds {value}, which is not a number; make it a string or delete the row"
            )
        check_text(str(value), f"{where}: key {key!r}")
    instruction, extra, output = (str(item[key]) for key in KEYS)
    return Row(
        id=f"{task}/{number:05d}",
        task=task,
        prompt=f"{instruction}\n{extra}" if extra else instruction,
        answer=output,
        meta={"source_file": path.name, "source_row": number},
    )
