"""How large a difference between two methods is, and how sure.

Every metric is a ratio of sums over evaluation rows (`Sums`). Two things blur it: which rows were asked, and which
seeds were trained. Rows are drawn again with replacement (Efron and Tibshirani 1993, chapter 8), all models on the same
draw, near-duplicates together. A test between methods also counts how much seeds differ, with Student's t, because two
to five seeds give few degrees of freedom; the two parts add up as in Graybill and Wang's (1980) intervals on sums of
variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb, inf, sqrt

import numpy as np

DRAWS = 4000
LEVEL = 0.05


@dataclass(frozen=True)
class Sums:
    """What each row adds above and below the line, both [seeds, rows]. A mean has ones below."""

    upper: np.ndarray
    lower: np.ndarray

    def values(self) -> np.ndarray:
        """The metric per seed, [seeds]; 0 where nothing is below the line."""
        return self.upper.sum(-1) / np.maximum(self.lower.sum(-1), 1e-12)


@dataclass(frozen=True)
class Difference:
    """First method minus second, means over seeds, in the metric's unit.

    interval: 95 % over rows, the models as they are
    rows: variance of the gap over draws of rows
    seeds: variance of the gap as it shows between seeds, with its degrees of freedom; None for one seed
    both: what `rows` and `seeds` share, from rows on which the seeds of a method disagree by chance
    p: two-sided, rows and seeds together; for one seed rows alone
    """

    gap: float
    interval: tuple[float, float]
    rows: float
    seeds: float | None
    freedom: float
    both: float
    p: float


def weights(clusters: int | Sequence[int], draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """How often each draw takes each row, [draws, rows].

    clusters: the number of rows, or per row the number of its group; a group is drawn as a whole
    """
    numbers = np.arange(clusters) if isinstance(clusters, int) else np.unique(clusters, return_inverse=True)[1]
    count = int(numbers.max()) + 1
    rng = np.random.default_rng(seed)
    return rng.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float64)[:, numbers]


def redraw(sums: Sums, drawn: np.ndarray) -> np.ndarray:
    """The metric per draw and seed, [draws, seeds]."""
    return (drawn @ sums.upper.T) / np.maximum(drawn @ sums.lower.T, 1e-12)


def interval(curve: np.ndarray, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval of a bootstrap curve [draws], widened for few rows or groups (`count`).

    The percentile interval is too narrow by about sqrt((n - 1) / n) and by using z for t: the expanded interval of
    Hesterberg (2015), "What teachers should know about the bootstrap", takes the quantiles that make up for both.
    """
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(sqrt(count / (count - 1)) * stdtrit(count - 1, level / 2))) if count > 1 else 0.0
    low, high = np.quantile(curve, [tail, 1 - tail])
    return float(low), float(high)


def share_interval(curve: np.ndarray, count: int, level: float = LEVEL) -> tuple[float, float]:
    """`interval` of a share in percent; where every row says the same, so that a bootstrap has no width, the exact one.

    >>> low, high = share_interval(np.zeros(9), 20)
    >>> low, round(high, 1)
    (0.0, 16.8)
    """
    low, high = interval(curve, count, level)
    unseen = 100 * (1 - (level / 2) ** (1 / count))
    if low == high == 0:
        return 0.0, unseen
    return (100 - unseen, 100.0) if low == high == 100 else (low, high)


def difference(first: Sums, second: Sums, drawn: np.ndarray, count: int | None = None) -> Difference:
    """The gap between two methods on the same rows.

    drawn: from `weights`; count: independent rows or groups, by default the number of rows
    """
    return from_curves(
        first.values(), second.values(), redraw(first, drawn), redraw(second, drawn), count or drawn.shape[1]
    )


def from_curves(a: np.ndarray, b: np.ndarray, curves_a: np.ndarray, curves_b: np.ndarray, count: int) -> Difference:
    """`difference` from values [seeds] and redrawn values [draws, seeds] of both methods.

    Where the two answer different rows their draws are independent, and `count` is the smaller number of rows.
    """
    gap = float(a.mean() - b.mean())
    curve = curves_a.mean(axis=1) - curves_b.mean(axis=1)
    rows = float(curve.var()) * count / max(count - 1, 1)
    seeds, both, freedom = None, 0.0, inf
    if min(len(a), len(b)) > 1:
        seeds, both, freedom = _between_seeds([(a, curves_a), (b, curves_b)])
    p = _p(gap, max(0.0, rows - both), seeds or 0.0, freedom, count)
    return Difference(gap, interval(curve, count), rows, seeds, freedom, both, p)


def _between_seeds(sides: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float, float]:
    """`seeds`, `both` and `freedom` (Welch's) of a difference of two means over seeds."""
    seeds = both = squares = 0.0
    for values, curves in sides:
        k = len(values)
        part = float(values.var(ddof=1)) / k
        chance = curves - curves.mean(axis=1, keepdims=True)
        both += float(chance.var(axis=0).mean()) / (k - 1)
        seeds += part
        squares += part * part / (k - 1)
    freedom = seeds**2 / squares if squares > 0 else float(min(len(values) for values, _ in sides) - 1)
    return seeds, both, freedom


def _p(gap: float, rows: float, seeds: float, freedom: float, count: int) -> float:
    """The level at which the interval of rows and seeds just reaches 0: gap² = t² rows + t'² seeds."""
    from scipy.optimize import brentq
    from scipy.special import stdtrit

    if gap == 0:
        return 1.0
    if rows + seeds <= 0:  # models that differ on all rows and seeds by the same amount
        return 0.0

    def beyond(tail: float) -> float:
        at_seeds = float(stdtrit(freedom, tail)) ** 2 * seeds if seeds > 0 else 0.0
        return float(stdtrit(max(count - 1, 1), tail)) ** 2 * rows + at_seeds - gap * gap

    least = 1e-12
    return 2 * float(brentq(beyond, least, 0.5)) if beyond(least) > 0 else 2 * least


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for how many there are (Holm 1979), in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = highest
    return corrected


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p of so uneven a split when either side is equally likely (McNemar's exact test).

    >>> sign_test(8, 2), sign_test(0, 0)
    (0.109375, 1.0)
    """
    n = wins + losses
    tail = sum(comb(n, k) for k in range(min(wins, losses) + 1)) / 2**n
    return min(1.0, 2 * tail)


@dataclass(frozen=True)
class Need:
    """What it takes to tell a difference from noise; None where no number of them would do."""

    rows: int | None
    seeds: int | None


def need(target: float, found: Difference, n: int, k: int, power: float = 0.8) -> Need:
    """Rows with `k` seeds, or seeds with `n` rows, for which a true difference `target` shows with probability `power`.

    found: a difference measured with n rows and k seeds, which tells how much rows and seeds scatter; with one seed
    the scatter of seeds is unknown and taken for 0, and `seeds` of the answer is None. Normal approximation, 5 %.
    """
    from scipy.special import ndtri

    allowed = (abs(target) / (ndtri(1 - LEVEL / 2) + ndtri(power))) ** 2
    trained = max(0.0, (found.seeds or 0.0) - found.both)  # more rows do not lower it
    asked = max(0.0, found.rows - found.both)  # more seeds do not lower it
    for_rows, for_seeds = allowed - trained, allowed - asked
    return Need(
        rows=max(1, ceil(found.rows * n / for_rows - 1e-9)) if for_rows > 0 else None,
        seeds=max(1, ceil(k * (trained + found.both) / for_seeds - 1e-9))
        if for_seeds > 0 and found.seeds is not None
        else None,
    )
