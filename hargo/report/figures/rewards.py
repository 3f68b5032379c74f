"""Rewards of the answers."""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from hargo import tasks
from hargo.evaluation.headline import earned
from hargo.report.figures.style import PAPER, colour
from hargo.report.results import Results, title
from hargo.report.tables import BINS, histogram


def rewards(results: Results) -> Figure:
    """Share of answers per reward range, one panel per task, the first reference as bars, rival and subject as dots."""
    base, *methods = results.featured
    figure, axes = plt.subplots(
        1, len(results.tasks), figsize=(2.6 * len(results.tasks) + 0.4, 2.5), sharey=True, squeeze=False
    )
    places = np.arange(len(BINS))
    for axis, task in zip(axes[0], results.tasks, strict=True):
        axis.bar(
            places, _shares(results, base, task), width=0.78, color=colour(results, base), alpha=0.45, label=title(base)
        )
        for shift, method in zip((-0.14, 0.14), methods, strict=False):
            shares = [value or np.nan for value in _shares(results, method, task)]
            axis.scatter(
                places + shift, shares, s=20, color=colour(results, method), edgecolor=PAPER,
                linewidth=0.5, zorder=3, label=title(method),
            )  # fmt: skip
        axis.set_xticks(places, [name.replace("-", "–") for name, _, _ in BINS], fontsize=7, rotation=45)
        axis.set_title(tasks.load(task).title)
        axis.grid(axis="x", visible=False)
        axis.set_xlabel("reward")
    axes[0][0].set_ylabel("% of answers")
    axes[0][-1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    return figure


def _shares(results: Results, method: str, task: str) -> list[float]:
    values = [earned(p) for m in results.models[method] for p in m.predictions if p.task == task]
    return list(histogram(values).values())
