"""Figures of P(yes): reliability and precision-recall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hargo import tasks
from hargo.evaluation.calibration import BINS, curve, reliability, scored
from hargo.report.figures.style import MUTED, PAPER, colour
from hargo.report.results import Results, title

_DASHES = (0, (3, 2))


def _shown(results: Results, names: Sequence[str]) -> list[str]:
    """The featured runs, as far as they recorded P(yes) on these tasks; lines of more would hide one another."""
    return [m for m in results.featured if all(len(scored(model.on(names))[1]) for model in results.models[m])]


def reliability_curve(results: Results) -> Figure | None:
    """Share of rows whose truth is yes per bin of P(yes), seeds pooled; below, how many rows fall into the bins."""
    pools = [(pool, names) for pool, names in results.pools.items() if _shown(results, names)]
    if not pools:
        return None
    figure, axes = plt.subplots(
        2, len(pools), figsize=(4.4 * len(pools), 4.6), sharex=True, squeeze=False,
        height_ratios=(3, 1), gridspec_kw={"hspace": 0.12},
    )  # fmt: skip
    for axis, counts, (pool, names) in zip(*axes, pools, strict=True):
        _reliability(axis, counts, results, names)
        if len(pools) > 1:
            axis.set_title(pool.title)
    return figure


def _reliability(axis: Axes, counts: Axes, results: Results, names: Sequence[str]) -> None:
    axis.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=_DASHES)
    methods = _shown(results, names)
    for place, method in enumerate(methods):
        parts = [scored(model.on(names)) for model in results.models[method]]
        probabilities, true = (np.concatenate(values) for values in zip(*parts, strict=True))
        bins = reliability(probabilities, true)
        axis.plot(
            [b.predicted for b in bins], [b.true for b in bins], "o-", color=colour(results, method), markersize=4.5,
            markeredgecolor=PAPER, markeredgewidth=0.6, linewidth=1.4, label=title(method),
        )  # fmt: skip
        width = 0.8 / BINS / len(methods)
        left = [b.low + 0.1 / BINS + place * width for b in bins]
        share = [100 * b.rows / len(true) for b in bins]
        counts.bar(left, share, width=width, align="edge", color=colour(results, method), alpha=0.7, linewidth=0)
    axis.set_ylabel("share whose truth is yes")
    axis.set_ylim(-0.03, 1.03)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    counts.set_ylabel("% of rows")
    counts.set_xlabel("P(yes)")


def precision_recall(results: Results) -> Figure | None:
    """Precision over recall per yes/no task, a thin line per seed."""
    names = [task for task in results.tasks if _shown(results, [task])]
    if not names:
        return None
    figure, axes = plt.subplots(1, len(names), figsize=(3.3 * len(names) + 0.6, 3.0), sharey=True, squeeze=False)
    for axis, task in zip(axes[0], names, strict=True):
        methods = _shown(results, [task])
        for method in methods:
            for index, model in enumerate(results.models[method]):
                probabilities, true = scored(model.predictions, task)
                if true.any():
                    label = title(method) if index == 0 else None
                    axis.step(
                        *curve(probabilities, true),
                        where="post",
                        color=colour(results, method),
                        linewidth=1.1,
                        label=label,
                    )
        truth = scored(results.models[methods[0]][0].predictions, task)[1]
        if len(truth):
            axis.axhline(truth.mean(), color=MUTED, linewidth=0.8, linestyle=_DASHES)
        axis.set_title(tasks.load(task).title)
        axis.set_xlabel("recall")
        axis.set_xlim(-0.02, 1.02)
        axis.set_ylim(0, 1.03)
    axes[0][0].set_ylabel("precision")
    axes[0][0].legend(frameon=False, fontsize=8, loc="lower left")
    figure.tight_layout()
    return figure
