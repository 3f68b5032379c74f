"""Whether the gap between two methods is more than noise: every comparison that the report makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import isfinite

import numpy as np

from hargo.evaluation import headline, statistics
from hargo.evaluation.statistics import LEVEL, Difference, Sums, flip_test, holm
from hargo.report.groups import Grouping, grouping
from hargo.report.results import Model, Results
from hargo.report.rows import is_share, relevant, sums
from hargo.report.tables import METRICS, Row, metrics_of


@dataclass(frozen=True)
class Gap:
    """First method minus second, on one metric.

    corrected: p after Holm's correction over the methods compared
    compared: how many these are
    from_level: whether WinRate is measured against `second` itself, so that no model is further than 50 points away
    """

    metric: str
    first: str
    second: str
    difference: Difference
    corrected: float
    compared: int = 1
    from_level: bool = False

    @property
    def gap(self) -> float:
        return self.difference.gap

    @property
    def interval(self) -> tuple[float, float]:
        return self.difference.interval

    @property
    def one_seed(self) -> bool:
        return self.difference.seeds is None

    @property
    def distinguishable(self) -> bool:
        """Whether it is more than other rows and seeds explain; never with one seed, which says nothing about seeds."""
        return not self.one_seed and self.corrected < LEVEL

    @property
    def detectable(self) -> float:
        """The true difference that four in five such studies find, at the level that the correction leaves."""
        return statistics.detectable(self.difference, LEVEL / self.compared)

    @property
    def reading(self) -> str:
        return reading(self.difference, self.corrected) + unnoticed(self)


def reading(difference: Difference, corrected: float) -> str:
    """A difference in words: against other rows and other seeds, or against other rows alone."""
    if corrected < LEVEL:
        return "more than noise" if difference.seeds is not None else "more than rows explain, seeds unknown"
    if difference.seeds is not None and not difference.interval[0] <= 0 <= difference.interval[1]:
        return "not distinguishable: seeds may explain it"
    return "not distinguishable"


def unnoticed(one: Gap) -> str:
    """What a gap that is not distinguishable leaves open; nothing for others, and where two models never differ."""
    size = limit(one)
    if one.corrected < LEVEL or not size:
        return ""
    return f"; a difference {size} could go unnoticed" + (", judging by rows alone" if one.one_seed else "")


def limit(one: Gap) -> str:
    """The size of the differences that the study could miss, `below 4.12`; empty where the two models never differ."""
    metric = headline.metric(one.metric)
    if one.detectable > metric.largest(one.from_level):
        return "of any size"
    return f"below {one.detectable:.{metric.decimals}f}" if one.detectable > 0 else ""


def matched(first: Sequence[Model], second: Sequence[Model]) -> list[int] | None:
    """The places in `second` of the seeds of `first`; None where the two do not have the same seeds."""
    ours, theirs = ([model.seed for model in models] for models in (first, second))
    if len(set(ours)) < len(ours) or sorted(map(str, ours)) != sorted(map(str, theirs)):
        return None
    return [theirs.index(seed) for seed in ours]


class Evidence:
    """Resampled figures of every model of a study, computed once and compared many times."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self._drawn: dict[tuple[str, ...], tuple[np.ndarray, int]] = {}
        self._sums: dict[tuple[str, str], Sums | None] = {}
        self._curves: dict[tuple[str, str], tuple[np.ndarray, np.ndarray, int] | None] = {}
        self._families: dict[tuple[str, str], dict[str, Gap]] = {}

    @cached_property
    def grouping(self) -> Grouping:
        return grouping(self.results.eval)

    @property
    def clusters(self) -> dict[str, int]:
        """Row id -> group: rows of one family, or near-duplicates, under every protocol."""
        return self.grouping.number

    def ids(self, method: str, metric: str) -> list[str]:
        """The rows that a metric is drawn from."""
        return [p.id for p in relevant(self.results.models[method][0].predictions, metric)]

    def groups(self, ids: Sequence[str]) -> np.ndarray:
        """The group of each of these rows, numbered from 0, [rows]."""
        return statistics.numbered([self.clusters[name] for name in ids])

    def nets(self, ids: Sequence[str], gains: Sequence[int]) -> list[int]:
        """The gains of these rows, 1, 0 or -1, added up over each group."""
        return [round(net) for net in np.bincount(self.groups(ids), gains)]

    def drawn(self, ids: Sequence[str]) -> tuple[np.ndarray, int]:
        """Weights [draws, rows] for these rows, and how many independent groups they form."""
        key = tuple(ids)
        if key not in self._drawn:
            numbers = [self.clusters[name] for name in ids]
            self._drawn[key] = statistics.weights(numbers), len(set(numbers))
        return self._drawn[key]

    def sums(self, method: str, metric: str) -> Sums | None:
        """What each row of the metric adds, all seeds of a method; None where it has no such row."""
        key = method, metric
        if key not in self._sums:
            self._sums[key] = sums(self.results.models[method], metric) if self.ids(method, metric) else None
        return self._sums[key]

    def curves(self, method: str, metric: str) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Values [seeds] and redrawn values [draws, seeds] of a method, and the number of groups of rows."""
        key = method, metric
        if key not in self._curves:
            own_sums = self.sums(method, metric)
            draws, count = self.drawn(self.ids(method, metric)) if own_sums else (np.empty(0), 0)
            self._curves[key] = (own_sums.values(), statistics.redraw(own_sums, draws), count) if own_sums else None
        return self._curves[key]

    def own(self, method: str, metric: str) -> tuple[float, float] | None:
        """95 % interval over rows of the method's mean over seeds."""
        curves = self.curves(method, metric)
        if curves is None or (metric == "win_rate" and method == self.results.first_reference):
            return None
        share = is_share(self.results.models[method], metric)
        of = statistics.share_interval if share else statistics.interval
        return of(curves[1].mean(axis=1), curves[2])

    def difference(self, first: str, second: str, metric: str) -> Difference | None:
        a, b = self.curves(first, metric), self.curves(second, metric)
        ours, theirs = self.sums(first, metric), self.sums(second, metric)
        if a is None or b is None or ours is None or theirs is None:
            return None
        order = matched(self.results.models[first], self.results.models[second])
        same = slice(None) if order is None else order
        return statistics.from_curves(
            a[0],
            b[0][same],
            a[1],
            b[1][:, same],
            a[2],
            paired=order is not None,
            sides=(ours, theirs),
            groups=self.groups(self.ids(first, metric)),
        )

    def family(self, reference: str, metric: str) -> dict[str, Gap]:
        """Every other method against `reference`, corrected for their number."""
        key = reference, metric
        if key not in self._families:
            names = [name for name in self.results.models if name != reference]
            level = metric == "win_rate" and reference == self.results.first_reference
            if metric == "win_rate" and not level:  # the run that WinRate is against has none
                names = [name for name in names if name != self.results.first_reference]
            differences = {name: one for name in names if (one := self.difference(name, reference, metric))}
            corrected = holm([one.p for one in differences.values()])
            self._families[key] = {
                name: Gap(metric, name, reference, one, p, len(differences), level)
                for (name, one), p in zip(differences.items(), corrected, strict=True)
            }
        return self._families[key]


@lru_cache(maxsize=2)
def evidence(results: Results) -> Evidence:
    return Evidence(results)


def gap(results: Results, first: str, second: str, metric: str) -> Gap | None:
    """The gap on `metric`, None where either method lacks it.

    Against a reference it is one of a family of comparisons; any other pair is tested on its own.
    """
    if second in results.references:
        return evidence(results).family(second, metric).get(first)
    difference = evidence(results).difference(first, second, metric)
    return Gap(metric, first, second, difference, difference.p) if difference else None


def mcnemar(results: Results, reference: str) -> list[tuple[str, int, int, int, float, float]]:
    """Accuracy on all rows: per method and seed, (method, seed, rows only it has right, rows only `reference` has
    right, exact two-sided p, p after Holm's correction over the lines of this list).

    McNemar's test with groups of rows in place of rows: each group's gain or loss has either sign equally likely.
    """
    comparisons = evidence(results)
    lines = []
    for name, models in results.models.items():
        if name == reference:
            continue
        order = matched(models, results.models[reference]) or []
        for a, b in zip(models, (results.models[reference][place] for place in order), strict=False):
            gains = [
                int(p.first.correct) - int(q.first.correct) for p, q in zip(a.predictions, b.predictions, strict=True)
            ]
            p = flip_test(comparisons.nets([p.id for p in a.predictions], gains))
            lines.append((name, a.seed or 0, gains.count(1), gains.count(-1), p))
    corrected = holm([line[-1] for line in lines])
    return [(*line, p) for line, p in zip(lines, corrected, strict=True)]


def headline_metrics(results: Results) -> list[str]:
    """The headline metrics that this study has."""
    return [m for m in METRICS if any(m in model.figures for models in results.models.values() for model in models)]


def gap_table(results: Results) -> list[Row]:
    """One row per metric, reference and method: the gap, its interval over rows, p, p after Holm's correction, ..."""
    rows: list[Row] = []
    for metric in metrics_of(results):
        for reference in results.references:
            for method, one in evidence(results).family(reference, metric).items():
                row: Row = {"metric": metric, "reference": reference, "method": method, "gap": one.gap}
                row |= {"low": one.interval[0], "high": one.interval[1], "p": one.difference.p, "p_holm": one.corrected}
                row |= {
                    "variance_rows": one.difference.rows,
                    "variance_seeds": one.difference.seeds,
                    "groups": one.difference.count,
                }
                rows.append(row | {"detectable": one.detectable if isfinite(one.detectable) else None})
    return rows
