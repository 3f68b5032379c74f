"""The headline figure and table, and accuracy per task."""

from __future__ import annotations

from hargo.report.blocks import Block, Figure
from hargo.report.marks import caption, method_table
from hargo.report.results import Results, title
from hargo.report.tables import METRICS, metrics_of


def blocks(results: Results) -> list[Block]:
    """The figure, the headline metrics with intervals and marks, accuracy per task."""
    metrics = metrics_of(results)
    main = [key for key in metrics if key in METRICS]
    accuracy = [key for key in metrics if key.startswith("accuracy_")]
    many = "mean ± sample standard deviation over seeds" if len(results.study.seeds) > 1 else "one seed"
    told = f"Headline metrics, means over seeds (each seed's are in the figure). {caption(results)}"
    bars = ""
    if results.first_reference is not None:
        first = title(results.first_reference)
        bars = f"bars run from the {first} model's mean to the method's; "
        if "win_rate" in main:
            told += f" WinRate is measured against the {first} model of the same seed, where 50 is level."
    if any(results.paper(name, metric) is not None for name in results.models for metric in main):
        told += " The column after each metric is the paper's."
    return [
        Figure(
            "headline",
            f"Dots are seeds; {bars}dashed lines are baselines without a language model. The axes leave out zero.",
            "Headline metrics per method with seeds and baselines; the figures are in the table below.",
        ),
        method_table(results, main, told),
        method_table(results, accuracy, f"Accuracy per task, {many}."),
    ]
