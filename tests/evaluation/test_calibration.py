"""Calibration by hand-worked numbers."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
from test_metrics import prediction

from hargo.evaluation import calibration, choice
from hargo.evaluation.calibration import average_precision, ece, reliability, scored, sweep

P = np.array([0.95, 0.85, 0.85, 0.45, 0.05])
TRUTH = np.array([1.0, 1.0, 0.0, 1.0, 0.0])


def test_examples() -> None:
    assert doctest.testmod(choice).failed == 0


def test_reliability_and_ece_by_hand() -> None:
    bins = reliability(P, TRUTH)
    assert [(b.low, b.rows) for b in bins] == [(0.0, 1), (0.4, 1), (0.8, 2), (0.9, 1)]
    assert (bins[2].predicted, bins[2].true) == (pytest.approx(0.85), 0.5)
    assert ece(P, TRUTH) == pytest.approx((0.05 + 0.55 + 2 * 0.35 + 0.05) / 5)
    assert ece(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == 0


def test_a_calibrated_model_has_no_error() -> None:
    rng = np.random.default_rng(0)
    said = rng.random(40000)
    assert ece(said, (rng.random(40000) < said).astype(float)) < 0.01


def test_sweep_by_hand() -> None:
    rows = {row["threshold"]: row for row in sweep(P, TRUTH)}
    assert rows[0.5]["precision"] == pytest.approx(200 / 3) and rows[0.5]["recall"] == pytest.approx(200 / 3)
    assert rows[0.4]["recall"] == 100 and rows[0.4]["f1"] == pytest.approx(600 / 7)
    assert rows[0.05]["recall"] == 100 and rows[0.05]["precision"] == 60


def test_average_precision_by_hand() -> None:
    """Thresholds .95, .85, .45: precision 1, 2/3, 3/4 over recall steps of a third each."""
    assert average_precision(P, TRUTH) == pytest.approx(100 * (1 + 2 / 3 + 3 / 4) / 3)
    assert average_precision(P, np.zeros(5)) is None


def test_rows_without_a_label_or_a_probability_are_left_out() -> None:
    even = {"yes": math.log(0.3), "no": math.log(0.1)}
    rows = [
        prediction("race_c", reference="yes", choice=even),
        prediction("race_fortran", reference="No.", choice=even),
        prediction("race_c", reference="#include", choice=even),
        prediction("race_c", reference="yes"),
        prediction("mlperf", reference="yes", choice=even),
    ]
    said, truth = scored(rows)
    assert said == pytest.approx([0.75, 0.75]) and truth.tolist() == [1, 0]
    assert scored(rows, "race_c")[1].tolist() == [1]
    found = calibration.calibration(rows[:2])
    assert found is not None and found["mass"] == pytest.approx(40) and found["ece"] == pytest.approx(25)
    assert calibration.calibration(rows[3:4]) is None
