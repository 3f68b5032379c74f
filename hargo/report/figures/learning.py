"""Rewards over training."""

from __future__ import annotations

import math

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hargo import tasks
from hargo.report.figures.series import series, smooth
from hargo.report.figures.style import colour
from hargo.report.results import Results, title


def learning(results: Results) -> Figure | None:
    """Mean reward over training steps, one panel per task: line is the mean over seeds, band their range."""
    methods = results.main
    shown = [t for t in results.tasks if any(series(results, m, f"reward/{t}/mean") for m in methods)]
    if not shown:
        return None
    figure, axes = plt.subplots(1, len(shown), figsize=(2.7 * len(shown) + 0.6, 2.6), sharex=True, squeeze=False)
    for axis, task in zip(axes[0], shown, strict=True):
        ends = []
        for method in methods:
            runs = series(results, method, f"reward/{task}/mean")
            if not runs:
                continue
            grid, curves = smooth(runs)
            mean = curves.mean(axis=0)
            axis.plot(grid, mean, color=colour(results, method), linewidth=1.6)
            if len(curves) > 1:
                axis.fill_between(
                    grid, curves.min(axis=0), curves.max(axis=0), color=colour(results, method), alpha=0.16, linewidth=0
                )
            ends.append((float(mean[-1]), method))
        _label_ends(axis, results, ends)
        axis.set_title(tasks.load(task).title)
        axis.set_xlabel("step")
        axis.grid(axis="x", visible=False)
        axis.locator_params(nbins=4)
    axes[0][0].set_ylabel("reward, moving mean")
    figure.tight_layout(w_pad=3.2)
    return figure


def _label_ends(axis: Axes, results: Results, ends: list[tuple[float, str]]) -> None:
    """Names at the right end of lines, moved apart where they would overlap."""
    low, high = axis.get_ylim()
    gap, previous = 0.09 * (high - low), -math.inf
    for value, method in sorted(ends):
        place = max(value, previous + gap)
        axis.annotate(
            title(method), (1.0, place), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
            color=colour(results, method), fontsize=8.5, va="center", annotation_clip=False,
        )  # fmt: skip
        previous = place
