"""Where a baseline without a language model keeps up with the best of the language models."""

from __future__ import annotations

from hargo.evaluation.headline import Metric, metrics
from hargo.report.comparisons import evidence
from hargo.report.results import Results, title


def level_baselines(results: Results) -> list[str]:
    """Sentences, one per metric where a baseline is within or above the best method's 95 % interval.

    The best method is that of the highest mean over seeds, the references included.
    """
    return [
        sentence
        for metric in metrics(results.tasks).values()
        if metric.warned and (sentence := _sentence(results, metric))
    ]


def _sentence(results: Results, metric: Metric) -> str | None:
    comparisons = evidence(results)
    means = {m: float(c[0].mean()) for m in results.models if (c := comparisons.curves(m, metric.name)) is not None}
    if not means:
        return None
    best = max(means, key=lambda method: means[method])
    bounds = comparisons.own(best, metric.name)
    if bounds is None:
        return None
    low, high = bounds
    unit = 100.0 / metric.scale  # scores between 0 and 1 are given in percent too
    values = {name: m.figures[metric.name] for name, m in results.baselines.items() if metric.name in m.figures}
    level = [f"{name} {unit * value:.1f} %" for name, value in values.items() if low <= value <= high]
    above = [f"{name} {unit * value:.1f} %" for name, value in values.items() if value > high]
    baselines = [
        f"{where} {', '.join(some)}" for where, some in (("above it", above), ("level with it", level)) if some
    ]
    if not baselines:
        return None
    return (
        f"{metric.words}: the best language model, {title(best)}, has {unit * means[best]:.1f} % (95 % interval "
        f"{unit * low:.1f} to {unit * high:.1f}); {'; '.join(baselines)}"
    )
