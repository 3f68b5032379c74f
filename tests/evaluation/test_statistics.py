"""Intervals cover the truth as often as they say, corrected tests reject what is equal as rarely as they say."""

from __future__ import annotations

import doctest
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from hargo.evaluation import statistics
from hargo.evaluation.statistics import (
    Difference,
    Sums,
    detectable,
    difference,
    flip_test,
    holm,
    interval,
    need,
    redraw,
    weights,
)

ROWS, SEEDS, STUDIES = 240, 2, 500
MORE = [(1, 0.0), (2, 0.0), (3, 0.0), (5, 0.0), (5, 3.0), (2, 10.0), (5, 10.0)]


def answers(rng: np.random.Generator, skill: np.ndarray, seeds: int = SEEDS) -> np.ndarray:
    """Right or wrong in percent, [seeds, rows]: each row has its own chance, the same for all seeds."""
    return 100.0 * (rng.random((seeds, len(skill))) < skill)


def bounds(a: Sums, b: Sums, drawn: np.ndarray, count: int) -> tuple[float, float]:
    """The interval of `difference`, without its test."""
    return interval((redraw(a, drawn) - redraw(b, drawn)).mean(axis=1), count)


def mean(values: np.ndarray) -> Sums:
    return Sums(values, np.ones(values.shape))


def test_examples() -> None:
    assert doctest.testmod(statistics).failed == 0


def test_intervals_cover_a_known_difference() -> None:
    """500 studies: rows drawn from a population where one method is right 6 points more often than the other."""
    rng = np.random.default_rng(1)
    drawn = weights(ROWS, 1000)
    covered = 0
    for _ in range(STUDIES):
        hard = 0.9 * rng.beta(2, 1, ROWS)
        low, high = bounds(mean(answers(rng, hard + 0.06)), mean(answers(rng, hard)), drawn, ROWS)
        covered += low <= 6 <= high
    assert 0.93 <= covered / STUDIES <= 0.97


def test_intervals_over_groups_cover_a_known_difference() -> None:
    """Rows come in groups that all methods answer alike; drawing them one by one would cover far too rarely."""
    rng = np.random.default_rng(3)
    size, groups = 4, 60
    numbers = np.repeat(np.arange(groups), size)
    together, apart = weights(numbers.tolist(), 1000), weights(size * groups, 1000)
    covered = np.zeros(2)
    for _ in range(STUDIES):
        hard = 0.8 * rng.beta(2, 1, groups)
        a, b = (mean(np.repeat(answers(rng, hard + gain), size, axis=1)) for gain in (0.1, 0.0))
        for i, (drawn, count) in enumerate(((together, groups), (apart, size * groups))):
            low, high = bounds(a, b, drawn, count)
            covered[i] += low <= 10 <= high
    assert 0.93 <= covered[0] / STUDIES <= 0.97
    assert covered[1] / STUDIES < 0.8


@pytest.mark.parametrize(
    ("seeds", "spread"), [(2, 3.0), (3, 3.0), *(pytest.param(*case, marks=pytest.mark.slow) for case in MORE)]
)
def test_corrected_tests_rarely_tell_equal_methods_apart(seeds: int, spread: float) -> None:
    """Four methods and a reference, trained alike; each seed comes out `spread` points better or worse by chance.

    The share of studies with any rejection is at most 5 %, and two standard errors of 400 studies (2.2 points) more.
    """
    rng = np.random.default_rng(3)
    drawn, rows, studies = weights(160, 500), 160, 400
    wrong = 0
    for _ in range(studies):
        hard = 0.2 + 0.6 * rng.beta(2, 1, rows)
        made = []
        for _ in range(5):
            luck = rng.normal(0, spread / 100, (seeds, 1))
            made.append(mean(100.0 * (rng.random((seeds, rows)) < hard + luck)))
        curves = [redraw(one, drawn) for one in made]
        values = [one.values() for one in made]
        p = [statistics.from_curves(values[i], values[0], curves[i], curves[0], rows).p for i in range(1, 5)]
        wrong += min(holm(p)) < 0.05
    assert wrong / studies <= 0.05 + 0.022


def test_a_real_difference_is_found_the_surer_the_more_seeds() -> None:
    rng = np.random.default_rng(4)
    hard = 0.6 * rng.beta(2, 1, 600)
    drawn = weights(600, 1000)
    for seeds, p in ((2, 0.05), (5, 1e-4)):
        a, b = answers(rng, hard + 0.2, seeds), answers(rng, hard, seeds)
        found = difference(mean(a), mean(b), drawn)
        assert found.p < p and found.interval[0] > 10
        assert found.interval == pytest.approx(bounds(mean(a), mean(b), drawn, 600))
    turned = difference(mean(answers(rng, hard, 5)), mean(answers(rng, hard + 0.2, 5)), drawn)
    assert turned.gap < 0 and turned.p < 1e-4


def test_equal_answers_are_no_difference() -> None:
    values = mean(answers(np.random.default_rng(0), np.full(50, 0.5)))
    found = difference(values, values, weights(50, 100))
    assert (found.gap, found.interval, found.p) == (0, (0, 0), 1)
    assert holm([found.p] * 3) == [1, 1, 1]


def test_f1_is_a_ratio_of_sums() -> None:
    """TP 2, FP 1, FN 1 of one seed: F1 = 4 / 6."""
    f1 = Sums(np.array([[200.0, 200.0, 0.0, 0.0, 0.0]]), np.array([[2.0, 2.0, 1.0, 1.0, 0.0]]))
    assert f1.values() == pytest.approx([100 * 4 / 6])
    assert redraw(f1, np.ones((1, 5))) == pytest.approx(np.array([[100 * 4 / 6]]))
    assert redraw(f1, np.array([[0.0, 0, 0, 0, 5]])) == 0


def test_groups_are_drawn_whole() -> None:
    drawn = weights([7, 7, 3, 3, 3, 9], 50)
    assert (drawn[:, 0] == drawn[:, 1]).all() and (drawn[:, 2] == drawn[:, 4]).all()
    assert (drawn[:, [0, 2, 5]].sum(axis=1) == 3).all()
    assert (weights(6, 5) == weights(6, 5)).all()


def test_a_share_of_nothing_or_all_has_an_interval_too() -> None:
    """None of 20: up to 16.8 % (Clopper and Pearson); elsewhere it is the bootstrap's."""
    none, every = statistics.share_interval(np.zeros(50), 20), statistics.share_interval(np.full(50, 100.0), 20)
    assert none == (0, pytest.approx(16.84, abs=0.01)) and every == (pytest.approx(83.16, abs=0.01), 100)
    curve = np.random.default_rng(0).normal(50, 3, 900)
    assert statistics.share_interval(curve, 20) == interval(curve, 20)


def test_few_rows_give_a_wider_interval() -> None:
    curve = np.random.default_rng(0).normal(size=20000)
    few, many = interval(curve, 8), interval(curve, 5000)
    assert few[1] > many[1] == pytest.approx(1.96, abs=0.06)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_keeps_order_and_lies_between_p_and_bonferroni(values: list[float]) -> None:
    corrected = holm(values)
    for p, q in zip(values, corrected, strict=True):
        assert p <= q <= min(1, p * len(values)) or q == pytest.approx(max(corrected))
    assert sorted(range(len(values)), key=lambda i: values[i]) == sorted(
        range(len(values)), key=lambda i: (corrected[i], values[i])
    )


def sign_test(wins: int, losses: int) -> float:
    """McNemar's exact test."""
    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


def test_mcnemar_golden() -> None:
    assert flip_test([]) == flip_test([1] * 5 + [-1] * 5) == 1
    assert flip_test([1] * 8 + [-1] * 2) == flip_test([1] * 2 + [-1] * 8) == pytest.approx(0.109375)


def test_the_sign_test_takes_groups_as_a_whole() -> None:
    """Five groups of four rows, all won: a chance of 2 in 32, not of 2 in a million."""
    assert flip_test([1] * 8 + [-1] * 2 + [0] * 7) == pytest.approx(sign_test(8, 2))
    assert flip_test([4] * 5) == pytest.approx(2 / 32)
    assert flip_test([3, -3]) == flip_test([]) == flip_test([7]) == 1
    assert flip_test([5, 1, 1]) == pytest.approx(2 / 8) and flip_test([5, 1, -1]) == pytest.approx(6 / 8)
    assert 0 < flip_test([1] * 600) < 1e-100


def test_groups_that_share_their_outcome_are_not_told_apart_too_often() -> None:
    """Two equal methods on 80 groups of three to eight rows; the sign test of single rows is wrong in over a third."""
    rng = np.random.default_rng(5)
    sizes = rng.integers(3, 9, 80)
    nets = [(sizes * (rng.integers(0, 2, 80) - rng.integers(0, 2, 80))).tolist() for _ in range(1000)]
    by_group = sum(flip_test(net) < 0.05 for net in nets) / 1000
    by_row = sum(sign_test(sum(v for v in net if v > 0), -sum(v for v in net if v < 0)) < 0.05 for net in nets) / 1000
    assert 0.03 <= by_group <= 0.06 and by_row > 0.3


def rows_of(*counts: tuple[int, float, float]) -> tuple[Sums, Sums]:
    """One seed of two methods from (how many rows, what the first gives them, what the second gives them)."""
    first, second = (np.repeat([c[i] for c in counts], [c[0] for c in counts])[None] for i in (1, 2))
    return mean(first), mean(second)


@pytest.mark.parametrize(
    ("counts", "p"),
    [
        ([(4, 100, 0), (580, 100, 100)], 2 / 2**4),  # four rows gained, none lost: t says .0445
        ([(6, 100, 0), (1, 0, 100), (580, 0, 0)], 16 / 2**7),
        ([(1, 100, 0)], 1.0),
        ([(3, 100, 0)], 2 / 2**3),  # the gap does not vary at all
        ([(30, 100, 100)], 1.0),
    ],
)
def test_few_rows_are_not_sure(counts: list[tuple[int, float, float]], p: float) -> None:
    first, second = rows_of(*counts)
    found = difference(first, second, weights(sum(c[0] for c in counts)))
    assert found.p == pytest.approx(p) and found.seeds is None


def test_rows_that_all_agree_are_as_sure_as_there_are_many() -> None:
    first, second = rows_of((40, 100, 0))
    assert 0 < difference(first, second, weights(40)).p < 0.001
    grouped = difference(first, second, weights([0, 1] * 20), 2, [0, 1] * 20)
    assert grouped.p == 0.5 and grouped.count == 2
    assert statistics.from_curves(np.ones(2), np.zeros(2), np.ones((9, 2)), np.zeros((9, 2)), 1).p == 1
    assert statistics.from_curves(np.ones(2), np.zeros(2), np.ones((9, 2)), np.zeros((9, 2)), 5).p == 1 / 16


def test_few_rows_of_independent_samples() -> None:
    """100 of 100 against 96 of 100 other rows: Fisher's exact test says .12."""
    ours, theirs = (np.repeat([100.0, 0.0], [n, 100 - n]) for n in (100, 96))
    p = statistics.deal_test((ours, np.ones(100)), (theirs, np.ones(100)))
    assert p == pytest.approx(0.121, abs=0.02)
    assert statistics.deal_test((np.ones(1), np.ones(1)), (np.zeros(1), np.ones(1))) == 1
    many = np.repeat([100.0, 0.0], [50, 50])
    assert statistics.deal_test((many, np.ones(100)), (theirs, np.ones(100))) == 0


def trained(rng: np.random.Generator, seeds: int, gain: float) -> tuple[Sums, Sums]:
    """A method and another on 500 rows: the seeds' SFT models scatter by 1.5 points, each method by .5 around them."""
    start = 0.6 + rng.normal(0, 0.015, (seeds, 1))
    luck = rng.random((seeds, 500))
    made = []
    for more in (gain / 100, 0.0):
        own = np.where(rng.random((seeds, 500)) < 0.9, luck, rng.random((seeds, 500)))
        made.append(mean(100.0 * (own < start + rng.normal(0, 0.005, (seeds, 1)) + more)))
    return made[0], made[1]


def rejected(seeds: int, gain: float, studies: int, paired: bool | None = None) -> float:
    rng = np.random.default_rng([seeds, int(gain)])
    drawn = weights(500, 500)
    found = [difference(*trained(rng, seeds, gain), drawn, paired=paired).p < 0.05 for _ in range(studies)]
    return sum(found) / studies


def test_seeds_are_paired_through_their_sft_model() -> None:
    """Three points at five seeds are found; 150 studies leave three points of luck."""
    assert rejected(5, 3.0, 150) > 0.8
    assert rejected(5, 3.0, 150, paired=False) < 0.6


@pytest.mark.parametrize("seeds", [2, 3, 5, pytest.param(16, marks=pytest.mark.slow)])
def test_equal_methods_are_told_apart_in_one_study_of_twenty(seeds: int) -> None:
    """3 to 6 % of studies, and two standard errors of 400 studies on either side."""
    assert 0.03 - 0.017 <= rejected(seeds, 0.0, 400) <= 0.06 + 0.024


@pytest.mark.parametrize("level", [0.05, 0.05 / 8])
@pytest.mark.parametrize("k", [2, 3, 5, 16])
@pytest.mark.parametrize("parts", [(0, 0, 1), (0, 1, 0), (1, 0, 9), (1, 1, 0), (8, 2, 0), (3, 2, 5)])
def test_no_mix_of_rows_and_seeds_misleads(k: int, level: float, parts: tuple[int, int, int]) -> None:
    """Rows, seeds and what both do together in any proportion, at the level of one comparison and of eight."""
    rng = np.random.default_rng([k, *parts])
    rows, seeds, both = (part / sum(parts) for part in parts)
    studies, groups, wrong = 2000, 100, 0
    for gap, r, s, b in zip(
        rng.normal(size=studies),
        (rows + both) * rng.chisquare(groups - 1, studies) / (groups - 1),
        (seeds + both) * rng.chisquare(k - 1, studies) / (k - 1),
        both * rng.chisquare((groups - 1) * (k - 1), studies) / ((groups - 1) * (k - 1)),
        strict=True,
    ):
        wrong += statistics._p(Difference(gap, (0, 0), r, s, k - 1, b, 1.0, groups)) < level
    luck = 3 * (level * (1 - level) / studies) ** 0.5
    assert wrong / studies <= 1.3 * level + luck
    if level == 0.05:
        assert wrong / studies >= (0.02 if k == 2 else 0.03) - luck


def test_the_order_of_seeds_matters_only_where_they_are_paired() -> None:
    first, second = trained(np.random.default_rng(0), 4, 2.0)
    turned = Sums(second.upper[::-1], second.lower[::-1])
    drawn = weights(500, 500)
    assert difference(first, second, drawn).seeds != pytest.approx(difference(first, turned, drawn).seeds)
    apart = [difference(first, other, drawn, paired=False) for other in (second, turned)]
    assert apart[0].seeds == pytest.approx(apart[1].seeds) and apart[0].freedom > 3
    fewer = Sums(second.upper[:3], second.lower[:3])
    assert difference(first, fewer, drawn).freedom > 2  # other seeds: not paired


def test_equal_values_of_two_seeds_do_not_mean_that_seeds_are_alike() -> None:
    """Both seeds gain 3 of 100 rows, but other rows each: with whole rows such ties are common."""
    rng = np.random.default_rng(1)
    upper = 100.0 * (rng.random((2, 100)) < 0.5)
    other = upper.copy()
    for seed in (0, 1):
        rows = rng.permutation(100)
        zeros, ones = rows[other[seed][rows] == 0], rows[other[seed][rows] == 100]
        other[seed][zeros[:13]], other[seed][ones[:10]] = 100.0, 0.0
    found = difference(mean(other), mean(upper), weights(100))
    assert found.gap == pytest.approx(3) and found.seeds is not None and found.seeds > 0 and found.p > 0.01


def test_shares_near_the_edge_are_covered() -> None:
    """2 % of 200 rows: the percentile interval alone covers it in nine of ten studies."""
    rng = np.random.default_rng(2)
    drawn = weights(200, 1000)
    covered = np.zeros(2)
    for _ in range(400):
        curve = redraw(mean(100.0 * (rng.random((1, 200)) < 0.02)), drawn)[:, 0]
        for i, of in enumerate((statistics.share_interval, interval)):
            low, high = of(curve, 200)
            covered[i] += low <= 2 <= high
    assert covered[0] / 400 >= 0.95 and covered[1] / 400 < 0.93


# --- what a study can find ---

SCATTER = st.floats(0.01, 10)


def scatter(rows: float, seeds: float, k: int, groups: int = 200) -> Difference:
    """A difference whose variance is `rows` from rows alone and `seeds` from seeds alone."""
    return Difference(0.0, (0, 0), rows, seeds, k - 1, 0.0, 1.0, groups)


def test_what_is_detectable_by_hand() -> None:
    """2.8016 standard errors for a known variance; for t with one degree of freedom 16.33 (noncentral t)."""
    only_rows = Difference(1.0, (0, 0), 4.0, None, np.inf, 0.0, 0.5)
    assert detectable(only_rows) == pytest.approx(2 * 2.8016, abs=1e-3)
    assert detectable(scatter(0, 1, 2)) == pytest.approx(16.334, abs=1e-2)
    assert detectable(scatter(0, 1, 5)) == pytest.approx(3.761, abs=1e-3)
    assert detectable(Difference(1.0, (0, 0), 0.0, None, np.inf, 0.0, 1.0, 1)) == np.inf


def test_need_by_hand() -> None:
    """A variance of 1 over 500 rows; (2.8016 / 2)² times as many rows show a gap of 2."""
    only_rows = Difference(1.0, (0, 0), 1.0, None, np.inf, 0.0, 0.5)
    assert need(2.0, only_rows, n=500, k=1) == statistics.Need(rows=982, seeds=None)
    assert need(1.0, scatter(0.0, 1.0, 3), n=500, k=3).rows is None  # no rows make up for seeds
    assert need(0.5, scatter(1.0, 0.001, 3), n=500, k=3).seeds is None


@pytest.mark.parametrize(("rows", "seeds"), [(0.0, 1.0), (0.2, 0.8), (0.5, 0.5), (1.0, 0.0)])
@pytest.mark.parametrize("k", [2, 3, 5, 16])
def test_a_detectable_difference_is_found_in_four_studies_of_five(k: int, rows: float, seeds: float) -> None:
    """Studies as the test sees them: a gap, and variances that are known as well as k seeds and 200 groups allow."""
    rng = np.random.default_rng(k)
    size = detectable(scatter(rows, seeds, k))
    found = 0
    for _ in range(1000):
        seen = scatter(rows * rng.chisquare(199) / 199, seeds * rng.chisquare(k - 1) / (k - 1), k)
        gap = size + rng.normal() * (rows + seeds) ** 0.5
        found += statistics._p(replace(seen, gap=gap)) < 0.05
    assert found / 1000 > 0.8 - 0.04
    if rows * seeds == 0:
        assert found / 1000 < 0.8 + 0.04


@given(SCATTER, SCATTER, st.floats(0, 1), st.integers(2, 8), st.floats(0.2, 20))
def test_more_rows_never_need_more_seeds(rows: float, seeds: float, shared: float, k: int, target: float) -> None:
    found = replace(scatter(rows, seeds, k), both=shared * min(rows, seeds))
    rows_for = [need(target, statistics.planned(found, 1, m / k), 500, m).rows for m in (2, 3, 4, 6, 10)]
    known = [value for value in rows_for if value is not None]
    assert known == sorted(known, reverse=True) and rows_for == [None] * (5 - len(known)) + known
    seeds_for = [need(target, statistics.planned(found, n / 500, 1), n, k).seeds for n in (100, 500, 2000)]
    some = [value for value in seeds_for if value is not None]
    assert some == sorted(some, reverse=True) and seeds_for == [None] * (3 - len(some)) + some
    asked = need(target, found, 500, k)
    if asked.seeds is not None and asked.seeds > k:
        assert asked.rows is None or asked.rows > 500


def test_a_study_that_finds_a_difference_needs_no_more_rows_and_seeds() -> None:
    found = scatter(1.0, 0.5, 3)
    asked = need(detectable(found) + 1e-6, found, n=500, k=3)
    assert asked == statistics.Need(rows=500, seeds=3)
