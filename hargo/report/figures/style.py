"""How the report's figures look, and how they are written: SVG and PNG. Same results, same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hargo.io import write_text
from hargo.report.results import Results, title

INK, MUTED, RULE, PAPER = "#1b1f24", "#68707a", "#d5d9de", "#ffffff"

# Okabe and Ito's colours, distinct to people with colour blindness; the first reference, where gaps begin, is grey
_REFERENCE, _RIVAL, _SUBJECT = "#8a8f98", "#2f7fbf", "#d55e00"
_OTHERS = ("#b07a00", "#009e73", "#7a62b8", "#c26a97", "#45a9dc")

Plots = dict[str, Callable[[Results], Figure | None]]

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


def colour(results: Results, method: str) -> str:
    """A run's colour in every figure of a study: by its part in the report, and for other runs in their order."""
    parts = {results.subject: _SUBJECT, results.rival: _RIVAL, results.first_reference: _REFERENCE}
    others = [name for name in results.models if name not in parts]
    return parts.get(method) or _OTHERS[others.index(method) % len(_OTHERS)]


def name_rows(axis: Axes, results: Results, methods: Sequence[str]) -> None:
    """The methods' names at the rows of a panel, the subject's in bold."""
    axis.set_yticks(range(len(methods)), [title(method) for method in methods])
    for label, method in zip(axis.get_yticklabels(), methods, strict=True):
        label.set_color(INK)
        label.set_fontweight("bold" if method == results.subject else "normal")


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
