"""The embedded data source: generated race kernels and questions on catalogues of facts. Needs no network."""

from __future__ import annotations

from hargo.config.options import DataOptions
from hargo.data.embedded.kernels import LANGUAGES, kernel_rows
from hargo.data.records import Row


def load(options: DataOptions, tasks: list[str]) -> list[Row]:
    """Rows of `tasks`, each task's training rows before its evaluation rows.

    Every task draws from random numbers of its own: leaving a task out, or changing its size, does not
    change the rows of another. `meta` holds `split`, `family` and, for evaluation rows, `held_out`.
    """
    rows: list[Row] = []
    for task in tasks:
        if task in LANGUAGES:
            rows += kernel_rows(options.embedded, task)
    return rows
