"""How large a difference between two methods is, and how certain.

Every metric is a ratio of sums over evaluation rows (`Sums`). Two things blur it: which rows were evaluated, and which
seeds were trained. Rows are resampled with replacement (Efron and Tibshirani 1993, chapter 8), all models on the same
draw, near-duplicates together. A test between methods also counts how much seeds differ. Both methods of a seed start
from that seed's SFT model, so what counts is how the gap itself differs between seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, sqrt

import numpy as np

DRAWS = 4000
LEVEL = 0.05
#: below this number of rows (or groups) on which two methods differ, their variance is no guide
FEW = 10
#: more seeds than anyone would train
MANY = 1000


@dataclass(frozen=True)
class Sums:
    """What each row adds above and below the line, both [seeds, rows]. A mean has ones below."""

    upper: np.ndarray
    lower: np.ndarray

    def values(self) -> np.ndarray:
        """The metric per seed, [seeds]; 0 where nothing is below the line."""
        return self.upper.sum(-1) / np.maximum(self.lower.sum(-1), 1e-12)

    def pooled(self, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean over seeds of both sums, added up over each group of rows, [groups] each."""
        upper, lower = self.upper.mean(0), self.lower.mean(0)
        return np.bincount(groups, upper), np.bincount(groups, lower)


@dataclass(frozen=True)
class Difference:
    """First method minus second, means over seeds, in the metric's unit.

    interval: 95 % over rows, the models as they are
    rows: variance of the gap over draws of rows
    seeds: variance of the gap as observed between seeds, with its degrees of freedom; None for one seed
    both: what `rows` and `seeds` share, from rows on which the seeds of a method disagree by chance
    p: two-sided, rows and seeds together; for one seed rows alone
    count: rows, or groups of rows, that are independent of each other
    """

    gap: float
    interval: tuple[float, float]
    rows: float
    seeds: float | None
    freedom: float
    both: float
    p: float
    count: float = inf

    @property
    def unseeded(self) -> float:
        """The part of the variance that comes from rows and that no number of seeds removes."""
        return max(0.0, self.rows - self.both)


def weights(clusters: int | Sequence[int], draws: int | None = None, seed: int = 0) -> np.ndarray:
    """How often each draw takes each row, [draws, rows].

    clusters: the number of rows, or per row the number of its group; a group is drawn as a whole
    draws: `DRAWS` unless given
    """
    draws = draws or DRAWS
    if isinstance(clusters, int):
        return _multinomial(clusters, draws, seed)
    numbers = numbered(clusters)
    drawn = _multinomial(int(numbers.max()) + 1, draws, seed)
    return drawn if np.array_equal(numbers, np.arange(drawn.shape[1])) else drawn[:, numbers]


def numbered(clusters: Sequence[int]) -> np.ndarray:
    """Groups renumbered from 0 on, [rows]."""
    return np.unique(np.asarray(clusters), return_inverse=True)[1]


@lru_cache(maxsize=4)
def _multinomial(count: int, draws: int, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float64)
    drawn.flags.writeable = False
    return drawn


def redraw(sums: Sums, drawn: np.ndarray) -> np.ndarray:
    """The metric per draw and seed, [draws, seeds]."""
    lower = sums.lower[:1] if (sums.lower == sums.lower[0]).all() else sums.lower
    return (drawn @ sums.upper.T) / np.maximum(drawn @ lower.T, 1e-12)


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
    """`interval` of a share in percent, and near 0 or 100, where a bootstrap is too narrow, the exact one if wider.

    The exact interval is Clopper and Pearson's for as many rows as would scatter like the curve, at most `count` (Korn
    and Graubard 1998), and takes over where fewer than ten of them are on either side.

    >>> low, high = share_interval(np.zeros(9), 20)
    >>> low, round(high, 1)
    (0.0, 16.8)
    """
    from scipy.special import betaincinv

    low, high = interval(curve, count, level)
    share = float(curve.mean()) / 100
    scatter = float(curve.var()) / 1e4 * count / max(count - 1, 1)
    alike = share * (1 - share) / scatter if scatter > 0 else float(count)
    if min(share, 1 - share) * alike >= FEW:
        return low, high
    alike = min(alike, count)
    right, wrong = share * alike, (1 - share) * alike
    least = 100 * float(betaincinv(right, wrong + 1, level / 2)) if right > 0 else 0.0
    most = 100 * float(betaincinv(right + 1, wrong, 1 - level / 2)) if wrong > 0 else 100.0
    return min(low, least), max(high, most)


def difference(
    first: Sums,
    second: Sums,
    drawn: np.ndarray,
    count: int | None = None,
    groups: Sequence[int] | None = None,
    paired: bool | None = None,
) -> Difference:
    """The gap between two methods on the same rows.

    drawn: from `weights`; count: independent rows or groups, by default the number of rows
    groups: per row the number of its group, by default every row by itself; paired: see `from_curves`
    """
    numbers = numbered(range(drawn.shape[1]) if groups is None else groups)
    curves = redraw(first, drawn), redraw(second, drawn)
    known = count or int(numbers.max()) + 1
    return from_curves(first.values(), second.values(), *curves, known, paired, (first, second), numbers)


def from_curves(
    a: np.ndarray,
    b: np.ndarray,
    curves_a: np.ndarray,
    curves_b: np.ndarray,
    count: int,
    paired: bool | None = None,
    sides: tuple[Sums, Sums] | None = None,
    groups: np.ndarray | None = None,
) -> Difference:
    """`difference` from values [seeds] and redrawn values [draws, seeds] of both methods.

    Where the two answer different rows their draws are independent, and `count` is the smaller number of rows.

    paired: seed i of both starts from the same model; by default so where both have as many seeds
    sides, groups: where both answer the same rows, their sums and each row's group (numbered from 0), for an exact
    test where the methods differ on few of them
    """
    gap = float(a.mean() - b.mean())
    curve = curves_a.mean(axis=1) - curves_b.mean(axis=1)
    unbiased = count / (count - 1) if count > 1 else 1.0
    rows = float(curve.var()) * unbiased
    seeds, both, freedom = None, 0.0, inf
    if min(len(a), len(b)) > 1:
        together = len(a) == len(b) if paired is None else paired
        parts = [(a - b, curves_a - curves_b)] if together else [(a, curves_a), (b, curves_b)]
        seeds, both, freedom = _between_seeds(parts, max(_step(curves_a), _step(curves_b)))
        both *= unbiased
    estimate = Difference(gap, interval(curve, count), rows, seeds, freedom, both, 1.0, count)
    p = _p(estimate)
    if sides and groups is not None:
        p = max(p, _few(*sides, groups, variance=estimate.unseeded + (seeds or 0.0)))
    return replace(estimate, p=p)


def _between_seeds(sides: list[tuple[np.ndarray, np.ndarray]], step: float) -> tuple[float, float, float]:
    """`seeds`, `both` and `freedom` of a mean over seeds, or (Welch's) of the difference of two.

    Values that can only change by `step` come out equal by chance. Equal values do not mean that seeds do not
    scatter: a variance below step² / 24, the median of what rounding hides, is taken for that.
    """
    seeds = both = squares = 0.0
    for values, curves in sides:
        k = len(values)
        least = step * step / 24 if np.ptp(curves, axis=0).any() else 0.0
        part = max(float(values.var(ddof=1)), least) / k
        chance = curves - curves.mean(axis=1, keepdims=True)
        both += float(chance.var(axis=0).mean()) / (k - 1)
        seeds += part
        squares += part * part / (k - 1)
    freedom = seeds**2 / squares if squares > 0 else float(min(len(values) for values, _ in sides) - 1)
    return seeds, both, freedom


def _step(curves: np.ndarray) -> float:
    """The least distance between two values that a metric can take, from redrawn values [draws, seeds]."""
    values = np.unique(np.round(curves[:, 0], 9))
    return float(np.diff(values).min()) if len(values) > 1 else 0.0


def _p(difference: Difference) -> float:
    """Two-sided p of the gap, rows and seeds together: the mean of two, each exact where one of them is all there is.

    Student's t with Satterthwaite's (1946) degrees of freedom for a sum of two variances tells equal methods apart too
    often where few seeds have a small variance by luck: in up to one study of ten. The level at which gap² = t² rows +
    t'² seeds, each t with its own degrees of freedom (Graybill and Wang 1980), is never too small, but finds little.
    The mean is wrong in 2 to 6 % of studies at 5 %, whatever the mix; `tests/evaluation/test_statistics.py` tries them.
    """
    from scipy.optimize import brentq
    from scipy.special import stdtr, stdtrit

    if difference.gap == 0 or difference.count <= 1:
        return 1.0
    rows, seeds, f, g = (
        difference.unseeded,
        difference.seeds or 0.0,
        min(difference.freedom, 1e9),
        min(difference.count - 1, 1e9),
    )
    if rows + seeds <= 0:  # the gap is the same on all rows and seeds: as sure as that many coins on one side
        return 2.0 ** (1 - difference.count)

    def beyond(tail: float) -> float:
        return float(stdtrit(g, tail)) ** 2 * rows + float(stdtrit(f, tail)) ** 2 * seeds - difference.gap**2

    least = 1e-12
    careful = 2 * float(brentq(beyond, least, 0.5)) if beyond(least) > 0 else 2 * least
    freedom = (rows + seeds) ** 2 / (rows**2 / g + seeds**2 / f)
    return (careful + 2 * float(stdtr(freedom, -abs(difference.gap) / sqrt(rows + seeds)))) / 2


def _few(first: Sums, second: Sums, groups: np.ndarray, variance: float) -> float:
    """The exact p over groups of rows where the two differ on few of them, or by the same on all; otherwise 0."""
    ours, theirs = first.pooled(groups), second.pooled(groups)
    differ = np.abs(np.stack(ours) - np.stack(theirs)).max(axis=0) > 1e-9
    return swap_test(ours, theirs) if differ.sum() < FEW or variance <= 0 else 0.0


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


def flip_test(nets: Sequence[int]) -> float:
    """Exact two-sided p of so uneven a sum when the sign of each net count is a coin's.

    nets: rows won minus rows lost, per group of rows that stand or fall together. For single rows it is McNemar's exact
    test.

    >>> round(flip_test([1, 1, 1, -1]), 3), flip_test([4]), flip_test([])
    (0.625, 1.0, 1.0)
    """
    chance = np.ones(1)  # of each sum from -reach to reach
    for net in filter(None, nets):
        wider = np.zeros(len(chance) + 2 * abs(net))
        wider[: len(chance)] += chance / 2
        wider[len(wider) - len(chance) :] += chance / 2
        chance = wider
    reach, seen = len(chance) // 2, abs(sum(nets))
    return min(1.0, float(chance[: reach - seen + 1].sum() + chance[reach + seen :].sum()))


def swap_test(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]) -> float:
    """Two-sided p of the gap between two ratios of sums when either method may have given either answer to a group.

    ours, theirs: upper and lower sums per group, [groups] each. All ways to swap are tried where the two differ on
    up to twelve groups, and `DRAWS` of them otherwise.
    """
    (upper, lower), (other, below) = ours, theirs
    differ = np.flatnonzero((np.abs(upper - other) > 1e-9) | (np.abs(lower - below) > 1e-9))
    few = len(differ) <= 12
    if few:
        swapped = np.arange(2 ** len(differ))[:, None] >> np.arange(len(differ)) & 1
    else:
        swapped = np.random.default_rng(0).integers(0, 2, (DRAWS, len(differ)))
    up, down = swapped @ (other - upper)[differ], swapped @ (below - lower)[differ]
    gaps = (upper.sum() + up) / np.maximum(lower.sum() + down, 1e-12)
    gaps -= (other.sum() - up) / np.maximum(below.sum() - down, 1e-12)
    seen = upper.sum() / max(lower.sum(), 1e-12) - other.sum() / max(below.sum(), 1e-12)
    as_far = int((np.abs(gaps) >= abs(seen) * (1 - 1e-9)).sum())
    return as_far / len(gaps) if few else (1 + as_far) / (1 + len(gaps))


def deal_test(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]) -> float:
    """Two-sided p of the gap between two ratios of sums over different groups, had they been dealt out at random.

    ours, theirs: upper and lower sums per group. 0, which says nothing against the gap, unless fewer than ten groups
    stand out from the commonest value: with more of them their variance is a guide.
    """
    upper, lower = (np.concatenate(both) for both in zip(ours, theirs, strict=True))
    values, counts = np.unique(np.round(upper[lower > 0] / lower[lower > 0], 9), return_counts=True)
    if len(values) and counts.sum() - counts.max() >= FEW:
        return 0.0
    n = len(ours[0])
    order = np.random.default_rng(0).permuted(np.tile(np.arange(len(upper)), (DRAWS, 1)), axis=1)

    def gap(mine: np.ndarray, others: np.ndarray) -> np.ndarray:
        means = [upper[part].sum(-1) / np.maximum(lower[part].sum(-1), 1e-12) for part in (mine, others)]
        return np.abs(means[0] - means[1])

    seen = gap(np.arange(n), np.arange(n, len(upper)))
    return (1 + int((gap(order[:, :n], order[:, n:]) >= seen * (1 - 1e-9)).sum())) / (1 + DRAWS)


@dataclass(frozen=True)
class Need:
    """What it takes to distinguish a difference from noise; None where no rows, or not even `MANY` seeds, do."""

    rows: int | None
    seeds: int | None


def detectable(difference: Difference, level: float = LEVEL, power: float = 0.8) -> float:
    """The smallest true difference that shows with probability `power`, in the metric's unit.

    With one seed, rows alone. What rows and what seeds require, each by Student's t, are added as squares: exact for
    either alone, otherwise on the safe side. Infinite for one row or group.
    """
    seeds = _effect(difference.freedom, level, power) ** 2 * difference.seeds if difference.seeds else 0.0
    rows = _effect(difference.count - 1, level, power) ** 2 * difference.unseeded if difference.unseeded else 0.0
    return sqrt(rows + seeds) if difference.count > 1 else inf


@lru_cache(maxsize=1024)
def _effect(freedom: float, level: float, power: float) -> float:
    """How many standard errors a difference must have so that a t test shows it with probability `power`."""
    from scipy.special import nctdtrinc, stdtrit

    at = min(freedom, 1e6)
    return float(nctdtrinc(at, 1 - power, -stdtrit(at, level / 2))) if at > 0 else inf


def planned(difference: Difference, rows: float, seeds: float) -> Difference:
    """What `difference` would be with `rows` times as many rows and groups, and `seeds` times as many seeds."""
    trained = max(0.0, (difference.seeds or 0.0) - difference.both) / seeds  # more rows do not lower it
    alone, both = difference.unseeded / rows, difference.both / rows / seeds
    more = replace(difference, rows=alone + both, both=both, count=max(2.0, difference.count * rows))
    if difference.seeds is None:
        return more
    k = difference.freedom + 1  # as if both methods had as many
    return replace(more, seeds=trained + both, freedom=k * seeds - 1)


def need(target: float, difference: Difference, n: int, k: int, power: float = 0.8) -> Need:
    """Rows with `k` seeds, or seeds with `n` rows, for which a true difference `target` shows with probability `power`.

    difference: measured with n rows and k seeds; with one seed the variation between
    seeds is unknown and taken as 0, and `seeds` of the answer is None. See `detectable`.
    """

    def rows(number: int) -> bool:
        return detectable(planned(difference, number / n, 1), power=power) <= abs(target)

    def seeds(number: int) -> bool:
        return detectable(planned(difference, 1, number / k), power=power) <= abs(target)

    return Need(rows=_least(rows, 1, 10**9), seeds=_least(seeds, 2, MANY) if difference.seeds is not None else None)


def _least(enough: Callable[[int], bool], start: int, most: int) -> int | None:
    """The smallest number from `start` on that is enough, where all above it are too; None beyond `most`."""
    if not enough(most):
        return None
    low, high = start - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
