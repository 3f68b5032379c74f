"""Lengths of the answers."""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from hargo import tasks
from hargo.report.figures.style import INK, PAPER, colour
from hargo.report.results import Results, title


def lengths(results: Results) -> Figure:
    """Answer length in characters per task, log scale: median dot, middle half thick, p10 to p90 thin."""
    rows = [None, *results.featured]  # the reference answers first
    step = 1.0 / (len(rows) + 1.2)
    figure, axis = plt.subplots(figsize=(8.4, 0.72 * len(results.tasks) + 0.7))
    for place, task in enumerate(results.tasks):
        for index, name in enumerate(rows):
            if name is None:
                values = [len(row.answer) for row in results.eval if row.task == task]
            else:
                values = [len(p.first.output) for m in results.models[name] for p in m.predictions if p.task == task]
            q = np.maximum(np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9]), 0.8)
            height = place + (index - (len(rows) - 1) / 2) * step
            tint = INK if name is None else colour(results, name)
            axis.plot(q[[0, 4]], [height] * 2, color=tint, linewidth=1.0)
            axis.plot(q[[1, 3]], [height] * 2, color=tint, linewidth=4.2, alpha=0.6, solid_capstyle="butt")
            axis.plot(q[2], height, "o", color=tint, markersize=4.5, markeredgecolor=PAPER, markeredgewidth=0.6)
            if place == 0:
                label = "reference" if name is None else title(name)
                axis.annotate(label, (q[4], height), xytext=(7, 0), textcoords="offset points", color=tint,
                              fontsize=8, va="center")  # fmt: skip
    axis.set_xscale("log")
    axis.set_yticks(range(len(results.tasks)), [tasks.load(task).title for task in results.tasks], color=INK)
    axis.set_ylim(len(results.tasks) - 0.45, -0.55)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("characters")
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    figure.tight_layout()
    return figure
