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
    explanation = f"Headline metrics: means over seeds; the figure shows each seed. {caption(results)}"
    bars = ""
    if results.first_reference is not None:
        first = title(results.first_reference)
        bars = f"bars run from the {first} model's mean to the method's; "
        if "win_rate" in main:
            explanation += f" WinRate is measured against the {first} model of the same seed; 50 is level."
    if any(results.paper(name, metric) is not None for name in results.models for metric in main):
        explanation += " The column after each metric gives the paper's value."
    return [
        Figure(
            "headline",
            f"Dots are seeds; {bars}dashed lines are baselines without a language model. Axes do not start at zero.",
            "Headline metrics per method with seeds and baselines; the numbers are in the table below.",
        ),
        method_table(results, main, explanation),
        method_table(results, accuracy, f"Accuracy per task, {many}."),
    ]
