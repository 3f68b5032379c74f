"""The table of methods with intervals, and marks for what differs from a reference by more than noise."""

from __future__ import annotations

from collections.abc import Sequence

from hargo.report.blocks import Table
from hargo.report.comparisons import evidence, headline_metrics
from hargo.report.results import Results, title
from hargo.report.tables import METRICS, Row, metrics_of, over_seeds, shown

#: the mark of what is distinguishable from the first reference, from the second, ...
MARKS = "*†‡§"


def marked(references: Sequence[str]) -> dict[str, str]:
    """Reference -> its mark; references beyond the last mark have none."""
    return dict(zip(references, MARKS, strict=False))


def marks(results: Results, method: str, metric: str) -> str:
    """The marks of one cell of the headline table; empty where nothing is distinguishable."""
    text = ""
    for reference, mark in marked(results.references).items():
        if metric in METRICS:
            one = evidence(results).family(reference, metric).get(method)
            text += mark if one is not None and one.distinguishable else ""
    return text


def bracket(results: Results, method: str, metric: str, decimals: int) -> str:
    """` [low, high]` of the method's mean, or nothing where there is none."""
    bounds = evidence(results).own(method, metric)
    return f" [{bounds[0]:.{decimals}f}, {bounds[1]:.{decimals}f}]" if bounds else ""


def caption(results: Results) -> str:
    """What brackets and marks mean."""
    text = "Brackets give the 95 % interval of the mean over rows; families and near-duplicates are drawn together."
    meanings = [f"{mark} differs from {title(reference)}" for reference, mark in marked(results.references).items()]
    if len(results.models) < 2 or not meanings:
        return text
    test = "at the 5 % level, over rows and seeds, Holm-corrected across methods within each metric"
    return f"{text} {', '.join(meanings)}: {test}."


def annotate(results: Results, rows: list[Row]) -> list[Row]:
    """The summary's rows with interval, corrected p against each reference, and marks per headline metric."""
    for row in rows:
        method = row["method"]
        for metric in headline_metrics(results) if method in results.models else ():
            bounds = evidence(results).own(method, metric) or (None, None)
            row |= {f"{metric}_low": bounds[0], f"{metric}_high": bounds[1]}
            for reference in results.references:
                one = evidence(results).family(reference, metric).get(method)
                row[f"{metric}_p_{reference}"] = one and one.corrected
            row[f"{metric}_marks"] = marks(results, method, metric)
    return rows


def method_table(results: Results, metrics: list[str], caption: str, methods: list[str] | None = None) -> Table:
    """One row per method, or per method and baseline where `methods` names none; the paper's values beside ours."""
    header: list[str] = ["Method"]
    muted: list[int] = []
    papers = {m: any(results.paper(name, m) is not None for name in results.models) for m in metrics}
    for metric in metrics:
        header.append(metrics_of(results)[metric][0])
        if papers[metric]:
            muted.append(len(header))
            header.append("paper")
    everyone = results.everyone if methods is None else {name: results.models[name] for name in methods}
    rows = []
    for name, models in everyone.items():
        row = [title(name)]
        for metric in metrics:
            decimals = metrics_of(results)[metric][1]
            over = over_seeds(models, metric)
            cell = shown(over, decimals)
            if over and metric in METRICS and name in results.models:
                suffix = bracket(results, name, metric, decimals) + marks(results, name, metric)
                cell = f"{over.mean:.{decimals}f}{suffix}"
            row.append(cell)
            if papers[metric]:
                theirs = results.paper(name, metric)
                row.append("" if theirs is None else f"{theirs:.{decimals}f}")
        rows.append(row)
    return Table(header, rows, caption, tuple(muted))
