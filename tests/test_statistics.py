"""Intervals cover the truth as often as they say, corrected tests reject what is equal as rarely as they say."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hargo.evaluation import statistics
from hargo.evaluation.statistics import Difference, Sums, difference, holm, interval, need, redraw, sign_test, weights

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


def test_mcnemar_golden() -> None:
    assert sign_test(0, 0) == 1
    assert sign_test(5, 5) == 1
    assert sign_test(8, 2) == sign_test(2, 8) == pytest.approx(0.109375)


def test_need_by_hand() -> None:
    """(1.96 + 0.84)² = 7.849: a gap of 2 shows with 80 % power when its variance is 4 / 7.849 = .5096."""
    found = Difference(1.0, (0, 0), rows=1.0, seeds=0.6, freedom=4, both=0.4, p=0.5)
    asked = need(2.0, found, n=500, k=2)
    assert asked.rows == 1615  # 1.0 * 500 / (.5096 - .2)
    assert asked.seeds is None  # .6 of the variance stays whatever the seeds, more than .5096
    assert need(4.0, found, n=500, k=2) == statistics.Need(rows=272, seeds=1)
    assert need(0.5, found, n=500, k=2) == statistics.Need(None, None)
    assert need(4.0, Difference(1.0, (0, 0), 1.0, None, 9, 0.0, 0.5), n=500, k=1).seeds is None
