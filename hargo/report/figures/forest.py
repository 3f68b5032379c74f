"""Forest plot of the ablation: what each form changes against the rival, with its interval."""

from __future__ import annotations

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from hargo.report.comparisons import evidence, headline_metrics
from hargo.report.figures.style import MUTED, PAPER, colour, name_rows
from hargo.report.results import Results
from hargo.report.tables import METRICS


def forest(results: Results) -> Figure | None:
    """A panel per headline metric, a row per method: gap to the rival, 95 % interval, filled where distinguishable."""
    rival = results.rival
    if rival is None or not results.ablations:
        return None
    methods = [m for m in results.models if (m == results.subject or m in results.ablations) and m != rival]
    metrics = [m for m in headline_metrics(results) if evidence(results).family(rival, m)]
    figure, axes = plt.subplots(
        1, len(metrics), figsize=(2.2 * len(metrics) + 1.2, 0.32 * len(methods) + 0.9), sharey=True, squeeze=False
    )
    for axis, metric in zip(axes[0], metrics, strict=True):
        family = evidence(results).family(rival, metric)
        for place, method in enumerate(methods):
            if method not in family:
                continue
            one, tint = family[method], colour(results, method)
            axis.plot(one.interval, [place] * 2, color=tint, linewidth=1.6, solid_capstyle="butt")
            face = tint if one.distinguishable else PAPER
            axis.plot(one.gap, place, "s", color=tint, markerfacecolor=face, markersize=5.5)
        axis.axvline(0, color=MUTED, linewidth=0.9)
        axis.set_ylim(len(methods) - 0.4, -0.6)
        axis.set_title(METRICS[metric][0])
        axis.grid(axis="y", visible=False)
        axis.spines["left"].set_visible(False)
        axis.locator_params(axis="x", nbins=4)
    name_rows(axes[0][0], results, methods)
    figure.tight_layout(w_pad=1.4)
    return figure
