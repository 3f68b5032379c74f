"""The report's sections on answers: by class where a task has classes, by its scores where it has none."""

from __future__ import annotations

from hargo import tasks
from hargo.evaluation.measures import metrics
from hargo.evaluation.metrics import LONG_ANSWER
from hargo.report.blocks import Block, Figure, Table
from hargo.report.results import Results, title
from hargo.report.tables import accuracy_where, counts, over_seeds, shown, spread, unseen

_COUNTS = ("tp", "fp", "tn", "fn", "undecided")
_SHARES = ("precision", "recall", "f1", "accuracy")


def classes(results: Results) -> list[Block]:
    """Confusion counts of every pool of tasks; nothing where no task has classes."""
    if not results.pools:
        return []
    figure = Figure(
        "confusions",
        "Rows are the truth, columns the answer; means over seeds. An answer of neither class is one of its own and "
        "wrong.",
        "Confusion matrices of the tasks with classes; counts are in the table below.",
    )
    header = ["Method", "TP", "FP", "TN", "FN", "neither", "Precision %", "Recall %", "F1 %", "Accuracy %"]
    made: list[Block] = [figure]
    for pool, names in results.pools.items():
        rows = []
        for name, models in results.everyone.items():
            found = counts(models, names)
            if found is not None:
                whole = [f"{found[key]:.1f}".removesuffix(".0") for key in _COUNTS]
                rows.append([title(name), *whole, *(f"{found[key]:.2f}" for key in _SHARES)])
        positive = tasks.load(names[0]).positive
        together = f"{pool.title}: {', '.join(names)} pooled" if len(names) > 1 else tasks.load(names[0]).title
        made.append(
            Table(header, rows, f"{together}, positive class: {positive}. Means over seeds.", strong=("HARGO",))
        )
    return [*made, *_unseen(results)]


def _unseen(results: Results) -> list[Block]:
    """Accuracy by what training has not seen of a row, where the source says so, on tasks with classes."""
    kinds = [(task, kind) for names in results.pools.values() for task in names for kind in unseen(results, task)]
    if not kinds:
        return []
    rows = []
    for name, models in results.everyone.items():
        cells = []
        for task, kind in kinds:
            found = [accuracy_where(model, results, task, kind) for model in models]
            known = [value for value in found if value is not None]
            cells.append(shown(spread(known), 1) if known else "–")
        rows.append([title(name), *cells])
    return [
        Table(
            ["Method", *(f"{tasks.load(task).title}, unseen {kind} %" for task, kind in kinds)],
            rows,
            "Accuracy on rows whose names and sizes, or whose whole family of kernels, training has not seen.",
            strong=("HARGO",),
        )
    ]


def questions(results: Results) -> list[Block]:
    """Per task without classes, its figures; and where a score has a threshold, accuracy by other thresholds."""
    blocks: list[Block] = []
    for name in results.tasks:
        task = tasks.load(name)
        if task.positive is None:
            blocks.append(_figures(results, name))
        if task.threshold_sweep is not None:
            blocks.append(_sweep(results, name, *task.threshold_sweep))
    return blocks


def _figures(results: Results, task: str) -> Table:
    known = [metric for metric in metrics([task]).values() if metric.kind in ("score", "reward", "accuracy")]
    columns = {m.key: ("Accuracy %" if m.kind == "accuracy" else m.title, m.decimals) for m in known}
    columns[f"{task}_over_{LONG_ANSWER}"] = (f"Over {LONG_ANSWER} characters %", 2)
    rows = []
    for name, models in results.everyone.items():
        cells = [shown(over_seeds(models, key), decimals) for key, (_, decimals) in columns.items()]
        rows.append([title(name), *cells])
    caption = f"{tasks.load(task).title}. Accuracy counts the answers that the task's judgement takes for right."
    return Table(["Method", *(heading for heading, _ in columns.values())], rows, caption, strong=("HARGO",))


def _sweep(results: Results, task: str, score: str, thresholds: tuple[float, ...]) -> Table:
    rows = []
    for name, models in results.everyone.items():
        found = [m.metrics["tasks"][task]["sweep"]["accuracy"] for m in models if task in m.metrics["tasks"]]
        if found:
            cells = [f"{sum(one[f'{t:g}'] for one in found) / len(found):.1f}" for t in thresholds]
            rows.append([title(name), *cells])
    return Table(
        ["Method", *(f"≥ {t:g}" for t in thresholds)],
        rows,
        f"{tasks.load(task).title}: accuracy in percent by the {score} from which an answer counts as right; where the "
        "task's judgement draws the line is a choice.",
        strong=("HARGO",),
    )
