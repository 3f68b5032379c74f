"""The embedded data source: generated race kernels and questions on catalogues of facts. Needs no network."""

from __future__ import annotations

from hargo.config.options import DataOptions
from hargo.data.embedded.kernels import LANGUAGES, held_out_families, kernel_rows
from hargo.data.embedded.mlperf import mlperf_rows
from hargo.data.embedded.plp import plp_rows
from hargo.data.records import Row
from hargo.errors import UserError

#: the tasks that there are rows for
TASKS = (*LANGUAGES, "mlperf", "plp")


def load(options: DataOptions, tasks: list[str]) -> list[Row]:
    """Rows of `tasks`, each task's training rows before its evaluation rows.

    Every task draws from random numbers of its own: leaving a task out, or changing its size, does not
    change the rows of another. `meta` holds `split`, `family` and, for evaluation rows, `held_out`: what
    training has not shown, "names" (and sizes), the whole "family", or the "phrasing" of a question.
    """
    rows: list[Row] = []
    for task in tasks:
        if task in LANGUAGES:
            rows += kernel_rows(options.embedded, task)
        elif task == "mlperf":
            rows += mlperf_rows(options.embedded)
        elif task == "plp":
            rows += plp_rows(options.embedded)
        else:
            raise UserError(f"data.source: embedded has no rows for task {task!r}; use another source")
    return rows


def check(options: DataOptions, tasks: list[str]) -> None:
    """UserError for kernel families that there are not, or too few of them, before anything is made of them."""
    if any(task in LANGUAGES for task in tasks):
        held_out_families(options.embedded)
