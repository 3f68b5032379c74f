"""Is the gap between two methods more than noise? Every comparison that the report makes, from its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from hargo.data.similarity import characters, fingerprint, groups
from hargo.evaluation import statistics
from hargo.evaluation.statistics import LEVEL, Difference, holm, sign_test
from hargo.report.results import Model, Results
from hargo.report.rows import is_share, relevant, sums
from hargo.report.tables import METRICS

#: the models that every method is held against
REFERENCES = ("sft", "grpo")


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
        share = is_share(self.results.models[method], metric)
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


def headline_metrics(results: Results) -> list[str]:
    """The headline metrics that this study has."""
    return [m for m in METRICS if any(m in model.figures for models in results.models.values() for model in models)]
