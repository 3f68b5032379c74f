"""Answers by class, of the tasks that have classes."""

from __future__ import annotations

from hargo import tasks
from hargo.report.blocks import Block, Figure, Table
from hargo.report.results import Results, title
from hargo.report.tables import accuracy_where, counts, shown, spread, unseen

_COUNTS = ("tp", "fp", "tn", "fn", "undecided")
_SHARES = ("precision", "recall", "f1", "accuracy")


def blocks(results: Results) -> list[Block]:
    """Confusion counts of every pool of tasks; nothing where no task has classes."""
    if not results.pools:
        return []
    figure = Figure(
        "confusions",
        "Rows are the truth, columns the answer; means over seeds. An answer of neither class has a column of its own "
        "and counts as wrong.",
        "Confusion matrices of the tasks with classes; counts are in the table below.",
    )
    header = ["Method", "TP", "FP", "TN", "FN", "neither", "Precision %", "Recall %", "F1 %", "Accuracy %"]
    content: list[Block] = [figure]
    for pool, names in results.pools.items():
        rows = []
        for name, models in results.everyone.items():
            confusion = counts(models, names)
            if confusion is not None:
                whole = [f"{confusion[key]:.1f}".removesuffix(".0") for key in _COUNTS]
                rows.append([title(name), *whole, *(f"{confusion[key]:.2f}" for key in _SHARES)])
        positive = tasks.load(names[0]).positive
        together = f"{pool.title}: {', '.join(names)} pooled" if len(names) > 1 else tasks.load(names[0]).title
        content.append(Table(header, rows, f"{together}, positive class: {positive}. Means over seeds."))
    return [*content, *_unseen(results)]


def _unseen(results: Results) -> list[Block]:
    """Accuracy by what training has not seen of a row, where the source says so, on tasks with classes."""
    kinds = [(task, kind) for names in results.pools.values() for task in names for kind in unseen(results, task)]
    if not kinds:
        return []
    rows = []
    for name, models in results.everyone.items():
        cells = []
        for task, kind in kinds:
            values = [accuracy_where(model, results, task, kind) for model in models]
            known = [value for value in values if value is not None]
            cells.append(shown(spread(known), 1) if known else "–")
        rows.append([title(name), *cells])
    return [
        Table(
            ["Method", *(f"{tasks.load(task).title}, unseen {kind} %" for task, kind in kinds)],
            rows,
            "Accuracy on rows whose names and sizes, or whose whole family of kernels, are not in training.",
        )
    ]
