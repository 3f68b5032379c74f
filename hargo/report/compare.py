"""Is the gap between two methods more than noise? Over seeds, over rows, and on the yes/no answers."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from hargo import tasks
from hargo.evaluation.metrics import confusion
from hargo.report.results import Model, Results, title
from hargo.report.tables import over_seeds

RESAMPLES = 4000

_LEVELS = {
    "race_f1": "race F1",
    "race_accuracy": "race accuracy",
    "accuracy_mlperf": "mlperf accuracy",
    "em": "mlperf EM",
    "avg_score": "mlperf average score",
    "accuracy_plp": "plp accuracy",
    "plp_similarity": "plp similarity",
}


@dataclass(frozen=True)
class Gap:
    """First method minus second, on one metric.

    gap: difference of the means over seeds
    seed_spread: the larger of the two methods' max - min over seeds; None for one seed
    interval: 95 % paired bootstrap over evaluation rows, models as they are
    """

    metric: str
    first: str
    second: str
    gap: float
    seed_spread: float | None
    interval: tuple[float, float]

    @property
    def distinguishable(self) -> bool:
        """More than the seeds of one method differ, and more than another draw of evaluation rows would do."""
        beyond_seeds = self.seed_spread is not None and abs(self.gap) > self.seed_spread
        return beyond_seeds and not self.interval[0] <= 0 <= self.interval[1]


def gap(results: Results, first: str, second: str, metric: str) -> Gap | None:
    """The gap on `metric`, None where either method lacks it."""
    a, b = (over_seeds(results.models[name], metric) for name in (first, second))
    if a is None or b is None:
        return None
    spread = max(a.high - a.low, b.high - b.low) if a.n > 1 else None
    interval = _bootstrap(results.models[first], results.models[second], metric)
    return Gap(metric, first, second, a.mean - b.mean, spread, interval)


def _bootstrap(first: list[Model], second: list[Model], metric: str) -> tuple[float, float]:
    """95 % interval of the gap: rows drawn again with replacement, all models on the same draw."""
    n = len(_parts(first[0], metric)[0])
    rng = np.random.default_rng(0)
    draws = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(np.float64)

    def mean(models: list[Model]) -> np.ndarray:
        curves = []
        for model in models:
            upper, lower = _parts(model, metric)
            curves.append((draws @ upper) / np.maximum(draws @ lower, 1.0))
        return np.mean(curves, axis=0)

    low, high = np.quantile(mean(first) - mean(second), [0.025, 0.975])
    return float(low), float(high)


def _parts(model: Model, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The metric as a ratio of sums over rows: what each row adds above and below the line, both [rows]."""
    if metric == "race_f1":
        rows = [p for p in model.predictions if tasks.load(p["task"]).positive]
        counts = [confusion([p]) for p in rows]
        upper = np.array([2 * c["tp"] for c in counts])
        lower = upper + [c["fp"] + c["fn"] + c["undecided_positive"] for c in counts]
        return 100.0 * upper, lower.astype(np.float64)
    if metric == "win_rate":
        points = {"won": 100.0, "tied": 50.0, "lost": 0.0}
        values = [points[model.outcomes[p["id"]]] for p in model.predictions]
    elif metric.startswith("accuracy_"):
        task = metric.removeprefix("accuracy_")
        values = [100.0 * p["correct"] for p in model.predictions if p["task"] == task]
    elif metric == "plp_similarity":
        values = [p["scores"]["similarity"] for p in model.predictions if p["task"] == "plp"]
    elif metric == "em":
        values = [100.0 * p["scores"]["em"] for p in model.predictions if p["task"] == "mlperf"]
    elif metric == "avg_score":
        values = [p["reward"] or 0.0 for p in model.predictions if p["task"] == "mlperf"]
    else:
        raise ValueError(f"no rows known for metric {metric!r}")
    return np.array(values), np.ones(len(values))


def mcnemar(results: Results, first: str, second: str) -> list[tuple[int, int, int, float]]:
    """Per seed: (seed, rows only `first` has right, rows only `second` has right, exact two-sided p), race tasks."""
    found = []
    for a, b in zip(results.models[first], results.models[second], strict=True):
        pairs = [
            (p["correct"], q["correct"])
            for p, q in zip(a.predictions, b.predictions, strict=True)
            if tasks.load(p["task"]).positive
        ]
        only_a = sum(x and not y for x, y in pairs)
        only_b = sum(y and not x for x, y in pairs)
        found.append((a.seed or 0, only_a, only_b, sign_test(only_a, only_b)))
    return found


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p of so uneven a split when either side is equally likely (McNemar's exact test).

    >>> sign_test(8, 2), sign_test(0, 0)
    (0.109375, 1.0)
    """
    n = wins + losses
    tail = sum(comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n
    return min(1.0, 2 * tail)


def level_baselines(results: Results, margin: float = 1.0) -> list[str]:
    """Sentences, one per baseline and metric where a baseline is level with or above the best method.

    Level means within `margin` points (percent) of the best method's mean, SFT included.
    """
    found = []
    for metric, name in _LEVELS.items():
        means = {m: s.mean for m, models in results.models.items() if (s := over_seeds(models, metric))}
        if not means:
            continue
        best = max(means, key=lambda method: means[method])
        # scores between 0 and 1 are compared, and shown, on the scale of percent
        unit = 100.0 if metric in ("avg_score", "plp_similarity") else 1.0
        top = unit * means[best]
        for baseline, model in results.baselines.items():
            if metric not in model.figures or (value := unit * model.figures[metric]) < top - margin:
                continue
            relation = "above" if value > top + margin else "level with"
            found.append(
                f"{baseline} is {relation} the best language model on {name}: {value:.1f} % "
                f"against {top:.1f} % ({title(best)})"
            )
    return found
