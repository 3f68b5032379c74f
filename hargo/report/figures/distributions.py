"""How methods share out the gradient over training."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from hargo.report.figures.series import smooth
from hargo.report.figures.style import MUTED, colour
from hargo.report.results import Results, title


def distributions(results: Results) -> Figure | None:
    """Quantiles over training of advantage A, confidence c and weight w, one row per run."""
    methods = results.weighing
    panels = {"advantage": "Advantage A", "confidence": "Confidence c", "weight": "Weight w in the group"}
    if not methods:
        return None
    figure, axes = plt.subplots(
        len(methods), 3, figsize=(9.2, 2.1 * len(methods) + 0.5), sharex=True, sharey="col", squeeze=False
    )
    for row, method in zip(axes, methods, strict=True):
        for axis, (key, name) in zip(row, panels.items(), strict=True):
            grid, quantiles = _fan(results, method, f"dist/{key}")
            if quantiles is None:
                axis.text(
                    0.5, 0.5, f"{title(method)} has no {name[-1]}", transform=axis.transAxes, ha="center", color=MUTED
                )
            else:
                tint = colour(results, method)
                axis.fill_between(grid, quantiles[1], quantiles[5], color=tint, alpha=0.16, linewidth=0)
                axis.fill_between(grid, quantiles[2], quantiles[4], color=tint, alpha=0.3, linewidth=0)
                axis.plot(grid, quantiles[3], color=tint, linewidth=1.7)
                for edge in (0, 6):
                    axis.plot(grid, quantiles[edge], color=tint, linewidth=0.7, alpha=0.7)
            if key == "weight":
                share = 1 / results.study.rl.group_size
                axis.axhline(share, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
                axis.annotate("1/G", (1, share), xycoords=("axes fraction", "data"), xytext=(3, 0),
                              textcoords="offset points", fontsize=8, color=MUTED, va="center")  # fmt: skip
            axis.set_title(name if method == methods[0] else "")
            axis.grid(axis="x", visible=False)
            axis.locator_params(nbins=4)
        row[0].set_ylabel(title(method), color=colour(results, method), fontweight="bold")
    for axis in axes[-1]:
        axis.set_xlabel("step")
    figure.tight_layout(w_pad=1.6)
    return figure


def _fan(results: Results, method: str, key: str) -> tuple[Any, Any]:
    """Quantile curves [7, points] averaged over seeds and smoothed, on a common grid of steps."""
    curves = []
    grid: Any = None
    for index in range(7):
        runs = [
            ([r["step"] for r in log if r.get(key)], [r[key][index] for r in log if r.get(key)])
            for log in results.training[method]
        ]
        runs = [run for run in runs if run[0]]
        if not runs:
            return None, None
        grid, smoothed = smooth(runs)
        curves.append(smoothed.mean(axis=0))
    return grid, np.array(curves)
