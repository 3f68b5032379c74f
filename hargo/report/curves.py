"""Figures of P(yes): reliability and precision-recall."""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from hargo import tasks
from hargo.evaluation.calibration import BINS, curve, reliability, scored
from hargo.report.figures import MUTED, PAPER, Plots, colour
from hargo.report.results import Results, title

_DASHES = (0, (3, 2))


def _shown(results: Results) -> list[str]:
    """SFT, GRPO and HARGO, as far as they recorded P(yes); lines of more methods would hide one another."""
    names = [m for m in ("sft", "grpo", "hargo") if m in results.models] or list(results.models)[:3]
    return [name for name in names if all(len(scored(m.predictions)[1]) for m in results.models[name])]


def reliability_curve(results: Results) -> Figure | None:
    """Share of true races per bin of P(yes), seeds pooled; below, how many rows fall into the bins."""
    methods = _shown(results)
    if not methods:
        return None
    figure, (axis, counts) = plt.subplots(
        2, 1, figsize=(4.4, 4.6), sharex=True, height_ratios=(3, 1), gridspec_kw={"hspace": 0.12}
    )
    axis.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=_DASHES)
    for place, method in enumerate(methods):
        parts = [scored(model.predictions) for model in results.models[method]]
        said, true = (np.concatenate(values) for values in zip(*parts, strict=True))
        bins = reliability(said, true)
        axis.plot(
            [b.said for b in bins], [b.true for b in bins], "o-", color=colour(method), markersize=4.5,
            markeredgecolor=PAPER, markeredgewidth=0.6, linewidth=1.4, label=title(method),
        )  # fmt: skip
        width = 0.8 / BINS / len(methods)
        left = [b.low + 0.1 / BINS + place * width for b in bins]
        share = [100 * b.rows / len(true) for b in bins]
        counts.bar(left, share, width=width, align="edge", color=colour(method), alpha=0.7, linewidth=0)
    axis.set_ylabel("share that is a race")
    axis.set_ylim(-0.03, 1.03)
    axis.legend(frameon=False, fontsize=8, loc="upper left")
    counts.set_ylabel("% of rows")
    counts.set_xlabel("P(yes)")
    return figure


def precision_recall(results: Results) -> Figure | None:
    """Precision over recall per yes/no task, a thin line per seed."""
    methods = _shown(results)
    names = [task for task in results.tasks if tasks.load(task).positive]
    if not methods or not names:
        return None
    figure, axes = plt.subplots(1, len(names), figsize=(3.3 * len(names) + 0.6, 3.0), sharey=True, squeeze=False)
    for axis, task in zip(axes[0], names, strict=True):
        for method in methods:
            for index, model in enumerate(results.models[method]):
                said, true = scored(model.predictions, task)
                if true.any():
                    label = title(method) if index == 0 else None
                    axis.step(*curve(said, true), where="post", color=colour(method), linewidth=1.1, label=label)
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


FIGURES: Plots = {
    "reliability": reliability_curve,
    "precision_recall": precision_recall,
}
