"""Metrics from predictions: the paper's figures from its counts, properties of WinRate, undecided answers."""

from __future__ import annotations

import doctest
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hargo.errors import UserError
from hargo.evaluation import confusion as counting
from hargo.evaluation.confusion import confusion, rates
from hargo.evaluation.headline import WIN_RATE, metric
from hargo.evaluation.metrics import compare, summarise
from hargo.evaluation.predictions import Prediction
from hargo.tasks import sampled


def prediction(task: str = "race_c", **over: Any) -> Prediction:
    value = {
        "id": f"{task}/0",
        "task": task,
        "output": "yes",
        "reference": "yes",
        "reward": 1.0,
        "parsed": "yes",
        "correct": True,
        "scores": {},
        "tokens": 2,
        "truncated": False,
    }
    return Prediction.of(value | over)


def race(reference: str, parsed: str | None, times: int, task: str = "race_c") -> list[Prediction]:
    return [
        prediction(task, reference=reference, parsed=parsed, output=parsed or "?", correct=parsed == reference)
        for _ in range(times)
    ]


@pytest.mark.parametrize(
    ("tp", "fp", "tn", "fn", "precision", "recall", "f1", "accuracy"),
    [
        (142, 19, 167, 14, 88.20, 91.03, 89.59, 90.35),
        (142, 15, 171, 14, 90.45, 91.03, 90.73, 91.52),
        (147, 19, 167, 9, 88.55, 94.23, 91.30, 91.81),
    ],
)
def test_the_papers_counts_give_the_papers_figures(
    tp: int, fp: int, tn: int, fn: int, precision: float, recall: float, f1: float, accuracy: float
) -> None:
    rows = race("yes", "yes", tp) + race("no", "yes", fp, "race_fortran") + race("no", "no", tn) + race("yes", "no", fn)
    result = summarise(rows)["race"]
    assert [result[key] for key in ("tp", "fp", "tn", "fn", "undecided")] == [tp, fp, tn, fn, 0]
    found = [round(result[key], 2) for key in ("precision", "recall", "f1", "accuracy")]
    assert found == [precision, recall, f1, accuracy]


def test_undecided_counts_as_wrong_and_never_as_no() -> None:
    rows = race("yes", "yes", 6) + race("yes", None, 2) + race("no", "no", 6) + race("no", None, 2)
    result = confusion(rows)
    assert (result["tp"], result["tn"], result["fn"], result["undecided"]) == (6, 6, 0, 4)
    assert result["undecided_positive"] == 2
    assert (
        result["recall"] == 75 and result["precision"] == 100 and result["accuracy"] == 75 and result["decided"] == 75
    )
    assert result["f1"] == pytest.approx(2 * 0.75 / 1.75 * 100)


def test_a_reference_without_label_is_undecided() -> None:
    assert confusion([prediction(reference="int x;", correct=False)])["undecided"] == 1


def test_nothing_right_is_zero_and_not_an_error() -> None:
    assert rates(0, 0, 0, 0) == {"precision": 0, "recall": 0, "f1": 0, "accuracy": 0, "decided": 0}
    assert confusion(race("yes", "no", 3))["f1"] == 0


def test_summary_by_hand() -> None:
    rows = [
        prediction("mlperf", output="8", reference="8", reward=1.0, scores={"em": 1.0, "em_whole": 1.0}, tokens=1),
        prediction("mlperf", output="x" * 41, reward=0.2, correct=False, scores={"em": 0.0, "em_whole": 0.0}, tokens=64,
                   truncated=True),
        prediction("mlperf", output="8 of them", reward=0.5, scores={"em": 1.0, "em_whole": 0.0}, tokens=4),
        prediction("mlperf", output="", reward=None, correct=False, parsed=None, scores={"em": 0.0, "em_whole": 0.0}),
        prediction("plp", scores={"similarity": 0.9}),
        prediction("plp", correct=False, scores={"similarity": 0.45}),
    ]  # fmt: skip
    result = summarise(rows)
    assert result["n"] == 6 and result["accuracy"] == 50
    assert (result["em"], result["em_whole"], result["avg_score"], result["mlperf_over_40"]) == (50, 25, 1.7 / 4, 25)
    assert result["plp_similarity"] == pytest.approx(0.675)
    assert "race" not in result
    mlperf = result["tasks"]["mlperf"]
    assert (mlperf["n"], mlperf["accuracy"], mlperf["truncated"], mlperf["unread"]) == (4, 50, 25, 25)
    assert mlperf["tokens"] == 71 / 4 and mlperf["scores"]["em"] == 0.5 and mlperf["length"]["max"] == 41
    sweep = result["tasks"]["plp"]["sweep"]
    assert sweep["score"] == "similarity"
    assert sweep["accuracy"]["0.4"] == 100 and sweep["accuracy"]["0.5"] == 50 and sweep["accuracy"]["0.9"] == 50


def rewarded(rewards: list[float]) -> list[Prediction]:
    return [prediction(id=f"race_c/{i}", reward=value) for i, value in enumerate(rewards)]


def win_rate(ours: list[Prediction], theirs: list[Prediction]) -> float:
    return float(WIN_RATE.sums(ours, compare(ours, theirs)).values()[0])


def test_win_rate_counts_ties_within_the_tolerance() -> None:
    ours, theirs = rewarded([1, 0, 0.5, 0.5 + 5e-7, 0.5]), rewarded([0, 1, 0.5, 0.5, 0.4])
    assert list(compare(ours, theirs).values()) == ["won", "lost", "tied", "tied", "won"]
    assert win_rate(ours, theirs) == 60


tiers = st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0])


@settings(deadline=None)
@given(st.lists(st.tuples(tiers, tiers), min_size=1), st.randoms(use_true_random=False))
def test_win_rate_is_antisymmetric_and_blind_to_order(pairs: list[tuple[float, float]], rng: random.Random) -> None:
    ours, theirs = rewarded([a for a, _ in pairs]), rewarded([b for _, b in pairs])
    result = win_rate(ours, theirs)
    back = win_rate(theirs, ours)
    assert result + back == pytest.approx(100)
    assert win_rate(ours, ours) == 50
    shuffled = ours[:]
    rng.shuffle(shuffled)
    assert win_rate(shuffled, theirs) == result


races = st.sampled_from(["yes", "no", None])


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["yes", "no"]), races), min_size=1), st.randoms(use_true_random=False))
def test_summary_does_not_depend_on_order_and_accuracies_agree(
    pairs: list[tuple[str, str | None]], rng: random.Random
) -> None:
    rows = [row for reference, parsed in pairs for row in race(reference, parsed, 1)]
    shuffled = rows[:]
    rng.shuffle(shuffled)
    result = summarise(rows)
    assert summarise(shuffled) == result
    assert result["race"]["accuracy"] == pytest.approx(result["accuracy"])  # two ways of counting


@pytest.mark.parametrize("theirs", [[0.1], [0.1, 0.2, 0.3]])
def test_win_rate_needs_the_same_rows(theirs: list[float]) -> None:
    with pytest.raises(UserError, match="answered by only one of two models"):
        win_rate(rewarded([0, 1]), rewarded(theirs))


def test_win_rate_needs_unique_ids() -> None:
    twice = [prediction(), prediction()]
    with pytest.raises(UserError, match="same id"):
        win_rate(twice, twice)


def test_examples() -> None:
    assert doctest.testmod(counting).failed == 0 and doctest.testmod(sampled).failed == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["yes", "no"]), races), min_size=1))
def test_a_metric_the_sums_of_its_rows_and_the_summary_agree(pairs: list[tuple[str, str | None]]) -> None:
    rows = [row for reference, parsed in pairs for row in race(reference, parsed, 1)]
    f1, accuracy = metric("race_f1"), metric("race_accuracy")
    found = summarise(rows)
    assert f1.value(rows) == pytest.approx(found["race"]["f1"])
    assert f1.sums(rows, {}).values() == pytest.approx([found["race"]["f1"]])
    assert accuracy.value(rows) == pytest.approx(found["race"]["accuracy"])


def test_the_largest_difference_is_the_metrics() -> None:
    assert [metric(name).largest() for name in ("win_rate", "em", "avg_score")] == [100, 100, 1]
    assert WIN_RATE.largest(from_level=True) == 50 and metric("em").largest(from_level=True) == 100
