"""Every method and baseline on the headline metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hargo.evaluation.headline import metric as measure
from hargo.report.figures.style import INK, PAPER, colour, name_rows
from hargo.report.results import Results
from hargo.report.tables import METRICS, metrics_of, over_seeds


def headline(results: Results) -> Figure:
    """A panel per metric: a dot per seed, a bar from the first reference's mean to theirs, a line per baseline."""
    metrics = [m for m in metrics_of(results) if m in METRICS]
    methods = list(results.models)
    extra = 0.42 * len(results.baselines)
    figure, axes = plt.subplots(
        1,
        len(metrics),
        figsize=(2.2 * len(metrics) + 1.2, 0.36 * (len(methods) + extra) + 0.9),
        sharey=True,
        squeeze=False,
    )
    for axis, metric in zip(axes[0], metrics, strict=True):
        _panel(axis, results, metric, methods)
        axis.set_ylim(len(methods) - 0.4 + extra, -0.6)
    name_rows(axes[0][0], results, methods)
    figure.tight_layout(w_pad=1.4)
    return figure


def _panel(axis: Axes, results: Results, metric: str, methods: list[str]) -> None:
    name, decimals = metrics_of(results)[metric]
    origin = _origin(results, metric)
    values = [] if origin is None else [origin]
    if origin is not None:
        axis.axvline(origin, color=colour(results, methods[0]), linewidth=1.2)
    for place, method in enumerate(methods):
        seeds = [model.figures[metric] for model in results.models[method] if metric in model.figures]
        if not seeds:
            continue
        tint = colour(results, method)
        if origin is not None:
            gain = float(np.mean(seeds)) - origin
            axis.barh(place, gain, left=origin, height=0.6, color=tint, alpha=0.5, linewidth=0)
        axis.scatter(seeds, [place] * len(seeds), s=15, color=tint, edgecolor=PAPER, linewidth=0.6, zorder=3)
        values += seeds
    lines = {n: m.figures[metric] for n, m in results.baselines.items() if metric in m.figures}
    low, high = _range([*values, *lines.values()], measure(metric).scale)
    _lines(axis, lines, len(methods), (low + high) / 2, min(decimals, 2))
    axis.set_xlim(low, high)
    axis.set_title(name)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.locator_params(axis="x", nbins=4)


def _origin(results: Results, metric: str) -> float | None:
    """Where bars begin: at the first reference's mean, which has no WinRate but ties with itself."""
    if results.first_reference is None:
        return None
    reference = over_seeds(results.models[results.first_reference], metric)
    return reference.mean if reference else 50.0


def _lines(axis: Axes, lines: Mapping[str, float], rows: int, middle: float, decimals: int) -> None:
    """A dashed line per baseline, named below the rows of the methods, on the side that has room."""
    for rank, (baseline, value) in enumerate(lines.items()):
        left = value > middle
        height = rows - 0.3 + 0.42 * rank
        axis.plot([value, value], [-0.6, height + 0.2], color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
        axis.annotate(
            f"{baseline} {value:.{decimals}f}",
            (value, height),
            xytext=(-3 if left else 3, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7.5,
            color=INK,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 0.8},
            zorder=4,
        )


def _range(values: Sequence[float], top: float) -> tuple[float, float]:
    """An axis around the values. It leaves out 0, since bars start at the reference and the gaps are what matters."""
    low, high = min(values), max(values)
    room = max(0.12 * (high - low), 0.02 * top)
    return max(0.0, low - room), min(1.02 * top, high + room)
