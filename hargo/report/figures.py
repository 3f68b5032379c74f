"""The report's figures, drawn with matplotlib, as SVG and PNG. Same results, same bytes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hargo import tasks
from hargo.evaluation.measures import metric as measure
from hargo.evaluation.metrics import reward_of
from hargo.io import write_text
from hargo.report.results import Results, title
from hargo.report.tables import BINS, METRICS, histogram, metrics_of, over_seeds

INK, MUTED, RULE, PAPER = "#1b1f24", "#68707a", "#d5d9de", "#ffffff"

# Okabe and Ito's colours, told apart by people with colour blindness; SFT, where all begin, is grey
COLOURS = {
    "sft": "#8a8f98",
    "grpo": "#2f7fbf",
    "hargo": "#d55e00",
    "dr_grpo": "#45a9dc",
    "b1": "#b07a00",
    "b2": "#009e73",
    "d_plus_c": "#7a62b8",
    "d_times_c": "#c26a97",
}
Plots = dict[str, Callable[[Results], Figure | None]]

_MORE = ("#7a62b8", "#c26a97", "#009e73", "#b07a00")

STYLE: Any = {
    "svg.hashsalt": "hargo",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.facecolor": PAPER,
}


def colour(method: str) -> str:
    return COLOURS.get(method) or _MORE[sum(method.encode()) % len(_MORE)]


def draw(results: Results, folder: Path, plots: Plots) -> dict[str, str]:
    """Write every figure of `plots` that the results allow as `folder`/<name>.svg and .png; name -> SVG text."""
    drawn: dict[str, str] = {}
    with matplotlib.rc_context(STYLE):
        for name, plot in plots.items():
            for kind in ("svg", "png"):  # of an earlier report, whose results may have shown more
                (folder / f"{name}.{kind}").unlink(missing_ok=True)
            figure = plot(results)
            if figure is None:
                continue
            buffer = io.StringIO()
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
            drawn[name] = buffer.getvalue()
            write_text(folder / f"{name}.svg", drawn[name])
            figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None}, bbox_inches="tight")
            plt.close(figure)
    return drawn


def headline(results: Results) -> Figure:
    """One panel per metric: a dot per seed, a bar from the SFT model's mean to the method's, a line per baseline."""
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
        _headline_panel(axis, results, metric, methods)
        axis.set_ylim(len(methods) - 0.4 + extra, -0.6)
    name_rows(axes[0][0], methods)
    figure.tight_layout(w_pad=1.4)
    return figure


def name_rows(axis: Axes, methods: Sequence[str]) -> None:
    """The methods' names at the rows of a panel, HARGO's in bold."""
    axis.set_yticks(range(len(methods)), [title(method) for method in methods])
    for label, method in zip(axis.get_yticklabels(), methods, strict=True):
        label.set_color(INK)
        label.set_fontweight("bold" if method == "hargo" else "normal")


def _headline_panel(axis: Axes, results: Results, metric: str, methods: list[str]) -> None:
    name, decimals = metrics_of(results)[metric]
    sft = over_seeds(results.models["sft"], metric)
    origin = sft.mean if sft else 50.0  # WinRate is measured against the SFT model, which ties with itself
    values = [origin]
    axis.axvline(origin, color=colour("sft"), linewidth=1.2)
    for place, method in enumerate(methods):
        seeds = [model.figures[metric] for model in results.models[method] if metric in model.figures]
        if not seeds:
            continue
        tint = colour(method)
        gain = float(np.mean(seeds)) - origin
        axis.barh(place, gain, left=origin, height=0.6, color=tint, alpha=0.5, linewidth=0)
        axis.scatter(seeds, [place] * len(seeds), s=15, color=tint, edgecolor=PAPER, linewidth=0.6, zorder=3)
        values += seeds
    lines = {n: m.figures[metric] for n, m in results.baselines.items() if metric in m.figures}
    low, high = _range([*values, *lines.values()], measure(metric).scale)
    for rank, (baseline, value) in enumerate(lines.items()):
        left = value > (low + high) / 2
        height = len(methods) - 0.3 + 0.42 * rank
        axis.plot([value, value], [-0.6, height + 0.2], color=INK, linewidth=0.8, linestyle=(0, (3, 2)))
        axis.annotate(
            f"{baseline} {value:.{min(decimals, 2)}f}",
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
    axis.set_xlim(low, high)
    axis.set_title(name)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.locator_params(axis="x", nbins=4)


def _range(values: Sequence[float], top: float) -> tuple[float, float]:
    """An axis around the values. It leaves out 0, since bars start at the SFT model and gaps are what to see."""
    low, high = min(values), max(values)
    room = max(0.12 * (high - low), 0.02 * top)
    return max(0.0, low - room), min(1.02 * top, high + room)


def learning(results: Results) -> Figure | None:
    """Mean reward over training steps, one panel per task: line is the mean over seeds, band their range."""
    methods = [m for m in results.main if m != "sft"]
    shown = [t for t in results.tasks if any(_series(results, m, f"reward/{t}/mean") for m in methods)]
    if not shown:
        return None
    figure, axes = plt.subplots(1, len(shown), figsize=(2.7 * len(shown) + 0.6, 2.6), sharex=True, squeeze=False)
    for axis, task in zip(axes[0], shown, strict=True):
        ends = []
        for method in methods:
            runs = _series(results, method, f"reward/{task}/mean")
            if not runs:
                continue
            grid, curves = _smooth(runs)
            mean = curves.mean(axis=0)
            axis.plot(grid, mean, color=colour(method), linewidth=1.6)
            if len(curves) > 1:
                axis.fill_between(
                    grid, curves.min(axis=0), curves.max(axis=0), color=colour(method), alpha=0.16, linewidth=0
                )
            ends.append((float(mean[-1]), method))
        _label_ends(axis, ends)
        axis.set_title(tasks.load(task).title)
        axis.set_xlabel("step")
        axis.grid(axis="x", visible=False)
        axis.locator_params(nbins=4)
    axes[0][0].set_ylabel("reward, moving mean")
    figure.tight_layout(w_pad=3.2)
    return figure


def _series(results: Results, method: str, key: str) -> list[tuple[list[int], list[float]]]:
    """Per seed, the steps that log `key` and its values; a step without a row of the task does not log it."""
    found = []
    for log in results.training[method]:
        pairs = [(record["step"], record[key]) for record in log if record.get(key) is not None]
        if pairs:
            found.append(([s for s, _ in pairs], [v for _, v in pairs]))
    return found


def _smooth(runs: list[tuple[list[int], list[float]]], points: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Centred moving means over a tenth of the run, on common steps: grid [points], curves [seeds, points]."""
    first = max(steps[0] for steps, _ in runs)
    last = min(steps[-1] for steps, _ in runs)
    grid = np.linspace(first, max(last, first + 1), points)
    curves = []
    for steps, values in runs:
        width = max(1, len(values) // 10)
        padded = np.pad(np.asarray(values, dtype=float), (width // 2, width - 1 - width // 2), mode="edge")
        curves.append(np.interp(grid, steps, np.convolve(padded, np.ones(width) / width, mode="valid")))
    return grid, np.array(curves)


def _label_ends(axis: Axes, ends: list[tuple[float, str]]) -> None:
    """Names at the right end of lines, moved apart where they would overlap."""
    low, high = axis.get_ylim()
    gap, previous = 0.09 * (high - low), -math.inf
    for value, method in sorted(ends):
        place = max(value, previous + gap)
        axis.annotate(
            title(method), (1.0, place), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
            color=colour(method), fontsize=8.5, va="center", annotation_clip=False,
        )  # fmt: skip
        previous = place


def distributions(results: Results) -> Figure | None:
    """Quantiles over training of advantage A, confidence c and weight w, GRPO above HARGO."""
    methods = [m for m in ("grpo", "hargo") if m in results.models]
    panels = {"advantage": "Advantage A", "confidence": "Confidence c", "weight": "Weight w in the group"}
    if not any(_series(results, m, "dist/weight") for m in methods):
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
                tint = colour(method)
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
        row[0].set_ylabel(title(method), color=colour(method), fontweight="bold")
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
        grid, smoothed = _smooth(runs)
        curves.append(smoothed.mean(axis=0))
    return grid, np.array(curves)


def rewards(results: Results) -> Figure:
    """Share of answers per reward range, one panel per task, SFT as bars, GRPO and HARGO as dots."""
    methods = [m for m in ("grpo", "hargo") if m in results.models]
    figure, axes = plt.subplots(
        1, len(results.tasks), figsize=(2.6 * len(results.tasks) + 0.4, 2.5), sharey=True, squeeze=False
    )
    places = np.arange(len(BINS))
    for axis, task in zip(axes[0], results.tasks, strict=True):
        axis.bar(places, _shares(results, "sft", task), width=0.78, color=colour("sft"), alpha=0.45, label="SFT")
        for shift, method in zip((-0.14, 0.14), methods, strict=False):
            shares = [value or np.nan for value in _shares(results, method, task)]
            axis.scatter(
                places + shift, shares, s=20, color=colour(method), edgecolor=PAPER,
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
    values = [reward_of(p) for m in results.models[method] for p in m.predictions if p["task"] == task]
    return list(histogram(values).values())


def lengths(results: Results) -> Figure:
    """Answer length in characters per task, log scale: median dot, middle half thick, p10 to p90 thin."""
    methods = [m for m in ("sft", "grpo", "hargo") if m in results.models]
    rows = ["reference", *methods]
    step = 1.0 / (len(rows) + 1.2)
    figure, axis = plt.subplots(figsize=(8.4, 0.72 * len(results.tasks) + 0.7))
    for place, task in enumerate(results.tasks):
        for index, name in enumerate(rows):
            if name == "reference":
                values = [len(row.answer) for row in results.eval if row.task == task]
            else:
                values = [len(p["output"]) for m in results.models[name] for p in m.predictions if p["task"] == task]
            q = np.maximum(np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9]), 0.8)
            height = place + (index - (len(rows) - 1) / 2) * step
            tint = INK if name == "reference" else colour(name)
            axis.plot(q[[0, 4]], [height] * 2, color=tint, linewidth=1.0)
            axis.plot(q[[1, 3]], [height] * 2, color=tint, linewidth=4.2, alpha=0.6, solid_capstyle="butt")
            axis.plot(q[2], height, "o", color=tint, markersize=4.5, markeredgecolor=PAPER, markeredgewidth=0.6)
            if place == 0:
                label = "reference" if name == "reference" else title(name)
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


#: figure name -> function that draws it, or gives None where the results have nothing to show
FIGURES: Plots = {
    "headline": headline,
    "learning": learning,
    "distributions": distributions,
    "rewards": rewards,
    "lengths": lengths,
}
