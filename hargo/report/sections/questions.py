"""Tasks without classes, by their scores; and what other thresholds on a score would give."""

from __future__ import annotations

from hargo import tasks
from hargo.evaluation.headline import metrics
from hargo.evaluation.metrics import LONG_ANSWER
from hargo.report.blocks import Block, Table
from hargo.report.results import Results, title
from hargo.report.tables import over_seeds, shown


def blocks(results: Results) -> list[Block]:
    """Per task without classes, its figures; and where a score has a threshold, accuracy by other thresholds."""
    content: list[Block] = []
    for name in results.tasks:
        task = tasks.load(name)
        if task.positive is None:
            content.append(_figures(results, name))
        if task.threshold_sweep is not None:
            content.append(_sweep(results, name, *task.threshold_sweep))
    return content


def _figures(results: Results, task: str) -> Table:
    known = [metric for metric in metrics([task]).values() if not metric.relative]
    columns = {m.name: ("Accuracy %" if m.name == f"accuracy_{task}" else m.title, m.decimals) for m in known}
    columns[f"{task}_over_{LONG_ANSWER}"] = (f"Over {LONG_ANSWER} characters %", 2)
    rows = []
    for name, models in results.everyone.items():
        cells = [shown(over_seeds(models, key), decimals) for key, (_, decimals) in columns.items()]
        rows.append([title(name), *cells])
    caption = f"{tasks.load(task).title}. Accuracy is the share of answers that the task judges right."
    return Table(["Method", *(heading for heading, _ in columns.values())], rows, caption)


def _sweep(results: Results, task: str, score: str, thresholds: tuple[float, ...]) -> Table:
    rows = []
    for name, models in results.everyone.items():
        sweeps = [m.metrics["tasks"][task]["sweep"]["accuracy"] for m in models if task in m.metrics["tasks"]]
        if sweeps:
            cells = [f"{sum(one[f'{t:g}'] for one in sweeps) / len(sweeps):.1f}" for t in thresholds]
            rows.append([title(name), *cells])
    return Table(
        ["Method", *(f"≥ {t:g}" for t in thresholds)],
        rows,
        f"{tasks.load(task).title}: accuracy in percent by the lowest {score} that counts as right. Where the task "
        "draws that line is a choice.",
    )
