"""Is the gap between two methods more than noise? Every comparison that the report makes, from its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from hargo import tasks
from hargo.data.similarity import characters, fingerprint, groups
from hargo.evaluation import statistics
from hargo.evaluation.metrics import Prediction, confusion
from hargo.evaluation.statistics import LEVEL, Difference, Sums, holm, sign_test
from hargo.report.results import Model, Results, title
from hargo.report.tables import METRICS

#: the models that every method is held against
REFERENCES = ("sft", "grpo")

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
    """First method minus second, on one metric. corrected: p after Holm's correction over the methods compared."""

    metric: str
    first: str
    second: str
    found: Difference
    corrected: float

    @property
    def gap(self) -> float:
        return self.found.gap

    @property
    def interval(self) -> tuple[float, float]:
        return self.found.interval

    @property
    def one_seed(self) -> bool:
        return self.found.seeds is None

    @property
    def distinguishable(self) -> bool:
        """More than other rows and other seeds would do; with one seed nobody knows what seeds do."""
        return not self.one_seed and self.corrected < LEVEL

    @property
    def reading(self) -> str:
        return reading(self.found, self.corrected)


def reading(found: Difference, corrected: float) -> str:
    """A difference in words: against other rows and other seeds, or against other rows alone."""
    if corrected < LEVEL:
        return "more than noise" if found.seeds is not None else "more than rows explain, seeds unknown"
    if found.seeds is not None and not found.interval[0] <= 0 <= found.interval[1]:
        return "not distinguishable: seeds may explain it"
    return "not distinguishable"


class Evidence:
    """Redrawn figures of every model of a study, made once and compared many times."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self._drawn: dict[tuple[str, ...], tuple[np.ndarray, int]] = {}
        self._curves: dict[tuple[str, str], tuple[np.ndarray, np.ndarray, int] | None] = {}
        self._families: dict[tuple[str, str], dict[str, Gap]] = {}

    @cached_property
    def clusters(self) -> dict[str, int]:
        """Row id -> group: near-duplicates together under `strict`, otherwise every row by itself."""
        rows = self.results.eval
        if self.results.study.data.protocol != "strict":
            return {row.id: number for number, row in enumerate(rows)}
        found: dict[str, int] = {}
        for task in self.results.tasks:
            mine = [row for row in rows if row.task == task]
            numbers = groups([fingerprint(row) for row in mine], [characters(row) for row in mine])
            start = len(found)
            found |= {row.id: start + number for row, number in zip(mine, numbers, strict=True)}
        return found

    def drawn(self, ids: Sequence[str]) -> tuple[np.ndarray, int]:
        """Weights [draws, rows] for these rows, and how many independent groups they form."""
        key = tuple(ids)
        if key not in self._drawn:
            numbers = [self.clusters[name] for name in ids]
            self._drawn[key] = statistics.weights(numbers), len(set(numbers))
        return self._drawn[key]

    def curves(self, method: str, metric: str) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Values [seeds] and redrawn values [draws, seeds] of a method, and the number of groups of rows."""
        key = method, metric
        if key not in self._curves:
            self._curves[key] = self._redraw(self.results.models[method], metric)
        return self._curves[key]

    def _redraw(self, models: list[Model], metric: str) -> tuple[np.ndarray, np.ndarray, int] | None:
        rows = relevant(models[0].predictions, metric)
        if not rows:
            return None
        made = sums(models, metric)
        drawn, count = self.drawn([p["id"] for p in rows])
        return made.values(), statistics.redraw(made, drawn), count

    def own(self, method: str, metric: str) -> tuple[float, float] | None:
        """95 % interval over rows of the method's mean over seeds."""
        found = self.curves(method, metric)
        if found is None or (metric == "win_rate" and method == "sft"):
            return None
        share = metric == "em" or metric.startswith("accuracy_") or metric == "race_accuracy"
        of = statistics.share_interval if share else statistics.interval
        return of(found[1].mean(axis=1), found[2])

    def difference(self, first: str, second: str, metric: str) -> Difference | None:
        a, b = self.curves(first, metric), self.curves(second, metric)
        return statistics.from_curves(a[0], b[0], a[1], b[1], a[2]) if a and b else None

    def family(self, reference: str, metric: str) -> dict[str, Gap]:
        """Every other method against `reference`, corrected for how many they are."""
        key = reference, metric
        if key not in self._families:
            names = [name for name in self.results.models if name != reference]
            if metric == "win_rate" and reference != "sft":
                names = [name for name in names if name != "sft"]
            found = {name: made for name in names if (made := self.difference(name, reference, metric))}
            corrected = holm([made.p for made in found.values()])
            self._families[key] = {
                name: Gap(metric, name, reference, made, p)
                for (name, made), p in zip(found.items(), corrected, strict=True)
            }
        return self._families[key]


@lru_cache(maxsize=2)
def evidence(results: Results) -> Evidence:
    return Evidence(results)


def gap(results: Results, first: str, second: str, metric: str) -> Gap | None:
    """The gap on `metric`, None where either method lacks it.

    Against SFT or GRPO it is one of a family of comparisons; any other pair is looked at by itself.
    """
    if second in REFERENCES:
        return evidence(results).family(second, metric).get(first)
    found = evidence(results).difference(first, second, metric)
    return Gap(metric, first, second, found, found.p) if found else None


def relevant(predictions: list[Prediction], metric: str) -> list[Prediction]:
    """The predictions that a metric is drawn from."""
    if metric in ("race_f1", "race_accuracy"):
        return [p for p in predictions if tasks.load(p["task"]).positive]
    if metric.startswith("accuracy_"):
        return [p for p in predictions if p["task"] == metric.removeprefix("accuracy_")]
    task = {"plp_similarity": "plp", "em": "mlperf", "avg_score": "mlperf"}.get(metric)
    return [p for p in predictions if task in (None, p["task"])]


def sums(models: Sequence[Model], metric: str) -> Sums:
    """The metric of each model as a ratio of sums over its relevant rows; models answer the same rows."""
    pairs = [_sums(model, metric) for model in models]
    return Sums(np.array([upper for upper, _ in pairs]), np.array([lower for _, lower in pairs]))


def _sums(model: Model, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """What each row adds above and below the line, both [rows]."""
    rows = relevant(model.predictions, metric)
    if metric == "race_f1":
        counts = [confusion([p]) for p in rows]
        upper = np.array([2.0 * c["tp"] for c in counts])
        lower = upper + [c["fp"] + c["fn"] + c["undecided_positive"] for c in counts]
        return 100.0 * upper, lower
    if metric == "win_rate":
        points = {"won": 100.0, "tied": 50.0, "lost": 0.0}  # the SFT model ties with itself
        values = [points[model.outcomes.get(p["id"], "tied")] for p in rows]
    elif metric == "race_accuracy" or metric.startswith("accuracy_"):
        values = [100.0 * p["correct"] for p in rows]
    elif metric == "plp_similarity":
        values = [p["scores"]["similarity"] for p in rows]
    elif metric == "em":
        values = [100.0 * p["scores"]["em"] for p in rows]
    elif metric == "avg_score":
        values = [p["reward"] or 0.0 for p in rows]
    else:
        raise ValueError(f"no rows known for metric {metric!r}")
    return np.array(values), np.ones(len(values))


def mcnemar(results: Results, reference: str) -> list[tuple[str, int, int, int, float, float]]:
    """Accuracy on all rows: per method and seed, (method, seed, rows only it has right, rows only `reference` has
    right, exact two-sided p, p after Holm's correction over the lines of this list)."""
    lines = []
    for name, models in results.models.items():
        if name == reference:
            continue
        for a, b in zip(models, results.models[reference], strict=True):
            pairs = [(p["correct"], q["correct"]) for p, q in zip(a.predictions, b.predictions, strict=True)]
            only_a = sum(x and not y for x, y in pairs)
            only_b = sum(y and not x for x, y in pairs)
            lines.append((name, a.seed or 0, only_a, only_b, sign_test(only_a, only_b)))
    corrected = holm([line[-1] for line in lines])
    return [(*line, p) for line, p in zip(lines, corrected, strict=True)]


def level_baselines(results: Results) -> list[str]:
    """Sentences, one per metric where a baseline is within or above the best method's 95 % interval.

    The best method is that of the highest mean over seeds, SFT included.
    """
    found = []
    made = evidence(results)
    for metric, words in _LEVELS.items():
        means = {m: float(c[0].mean()) for m in results.models if (c := made.curves(m, metric)) is not None}
        if not means:
            continue
        best = max(means, key=lambda method: means[method])
        bounds = made.own(best, metric)
        if bounds is None:
            continue
        low, high = bounds
        # scores between 0 and 1 are shown on the scale of percent
        unit = 100.0 if metric in ("avg_score", "plp_similarity") else 1.0
        values = {name: m.figures[metric] for name, m in results.baselines.items() if metric in m.figures}
        level = [f"{name} {unit * value:.1f} %" for name, value in values.items() if low <= value <= high]
        above = [f"{name} {unit * value:.1f} %" for name, value in values.items() if value > high]
        kept = [f"{where} {', '.join(some)}" for where, some in (("above it", above), ("level with it", level)) if some]
        if kept:
            found.append(
                f"{words}: the best language model, {title(best)}, has {unit * means[best]:.1f} % (95 % interval "
                f"{unit * low:.1f} to {unit * high:.1f}); {'; '.join(kept)}"
            )
    return found


def headline_metrics(results: Results) -> list[str]:
    """The headline metrics that this study has."""
    return [m for m in METRICS if any(m in model.figures for models in results.models.values() for model in models)]
