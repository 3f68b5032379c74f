"""Figure of the confusion counts: truth against answer, per pool of tasks and model."""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hargo import tasks
from hargo.report.results import Results, title
from hargo.report.tables import counts


def confusions(results: Results) -> Figure | None:
    """Truth against answer of every pool of tasks and model, means over seeds."""
    models = {m: results.models[m] for m in results.main} | {n: [b] for n, b in results.baselines.items()}
    panels = [
        (pool, names, title(name), confusion)
        for pool, names in results.pools.items()
        for name, some in models.items()
        if (confusion := counts(some, names)) is not None
    ]
    if not panels:
        return None
    across = min(4, len(panels))
    down = -(-len(panels) // across)
    figure, axes = plt.subplots(down, across, figsize=(2.35 * across, 1.75 * down + 0.3), squeeze=False)
    for axis, (pool, names, name, confusion) in zip(axes.flat, panels, strict=False):
        where = f"{pool.title}: " if len(results.pools) > 1 else ""
        _confusion(axis, confusion, str(tasks.load(names[0]).positive))
        axis.set_title(f"{where}{name}   F1 {confusion['f1']:.1f}", fontsize=9.5)
    for axis in list(axes.flat)[len(panels) :]:
        axis.axis("off")
    figure.tight_layout()
    return figure


def _confusion(axis: Axes, confusion: dict[str, float], positive: str) -> None:
    """One matrix: rows are the truth, columns the answer, the last one for an answer of neither class."""
    other = confusion["undecided"] - confusion["undecided_positive"]
    cells = np.array(
        [[confusion["tp"], confusion["fn"], confusion["undecided_positive"]], [confusion["fp"], confusion["tn"], other]]
    )
    share = cells / np.maximum(cells.sum(axis=1, keepdims=True), 1)
    axis.set_xlim(-0.5, 2.5)
    axis.set_ylim(1.5, -0.5)
    for (i, j), value in np.ndenumerate(cells):
        tint = "#2f7fbf" if i == j else "#d55e00"
        axis.add_patch(
            plt.Rectangle((j - 0.47, i - 0.46), 0.94, 0.92, color=tint, alpha=0.08 + 0.55 * share[i, j], linewidth=0)
        )
        axis.text(j, i, f"{value:.0f}" if value == round(value) else f"{value:.1f}", ha="center", va="center")
    negative = {"yes": "no", "no": "yes"}.get(positive, "other")
    axis.set_xticks(range(3), [positive, negative, "neither"], fontsize=8)
    axis.set_yticks(range(2), [positive, negative], fontsize=8)
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set_visible(False)
