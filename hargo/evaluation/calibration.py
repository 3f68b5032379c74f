"""How well calibrated P(yes) is and whether another threshold would do better, from predictions with a `choice`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hargo.evaluation.choice import is_yes_no, p_yes
from hargo.evaluation.confusion import rates, truth_of
from hargo.evaluation.predictions import Prediction

BINS = 10
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class Bin:
    """Rows whose P(yes) is in [low, high): how many, their mean P(yes), and the share whose truth is yes."""

    low: float
    high: float
    rows: int
    predicted: float
    true: float


def scored(predictions: Sequence[Prediction], task: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """P(yes) and truth (1 is yes) of the rows of yes/no tasks that have both, [rows] each."""
    rows = [
        (p_yes(p.choice), truth == "yes")
        for p in predictions
        if p.choice and is_yes_no(p.task) and task in (None, p.task)
        if (truth := truth_of(p.task, p.reference)) is not None
    ]
    return np.array([p for p, _ in rows]), np.array([float(y) for _, y in rows])


def reliability(probabilities: np.ndarray, truth: np.ndarray, bins: int = BINS) -> list[Bin]:
    """Bins of equal width that hold any rows."""
    place = np.minimum((probabilities * bins).astype(int), bins - 1)
    filled = []
    for i in range(bins):
        mine = place == i
        if mine.any():
            predicted, true = float(probabilities[mine].mean()), float(truth[mine].mean())
            filled.append(Bin(i / bins, (i + 1) / bins, int(mine.sum()), predicted, true))
    return filled


def ece(probabilities: np.ndarray, truth: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error of P(yes): mean gap between predicted and true share, weighted by rows.

    Naeini et al. (2015), in the binary form: on the probability of the positive class, not of the answer given.
    """
    return sum(b.rows * abs(b.predicted - b.true) for b in reliability(probabilities, truth, bins)) / len(truth)


def sweep(probabilities: np.ndarray, truth: np.ndarray) -> list[dict[str, float]]:
    """Precision, recall, F1 and accuracy, in percent, where P(yes) >= threshold counts as yes."""
    rows = []
    for threshold in THRESHOLDS:
        positive = probabilities >= threshold
        yes = truth == 1
        counts = {
            "tp": int((positive & yes).sum()),
            "fp": int((positive & ~yes).sum()),
            "tn": int((~positive & ~yes).sum()),
            "fn": int((~positive & yes).sum()),
        }
        rows.append({"threshold": threshold, **rates(**counts)})
    return rows


def average_precision(probabilities: np.ndarray, truth: np.ndarray) -> float | None:
    """Area below the precision-recall steps, in percent; None without a positive row."""
    from sklearn.metrics import average_precision_score

    return 100 * float(average_precision_score(truth, probabilities)) if truth.any() else None


def curve(probabilities: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Recall and precision over falling thresholds, [thresholds] each."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(truth, probabilities)
    return recall[::-1], precision[::-1]


def calibration(predictions: Sequence[Prediction]) -> dict[str, Any] | None:
    """`ece`, `average_precision` (pooled; `tasks` per task) and `mass`, the mean of P(yes) + P(no), all in percent.

    None without P(yes).
    """
    probabilities, truth = scored(predictions)
    if not len(truth):
        return None
    names = dict.fromkeys(p.task for p in predictions if p.choice)
    mass = [np.exp(p.choice["yes"]) + np.exp(p.choice["no"]) for p in predictions if p.choice]
    return {
        "rows": len(truth),
        "ece": 100 * ece(probabilities, truth),
        "average_precision": average_precision(probabilities, truth),
        "mass": 100 * float(np.mean(mass)),
        "tasks": {name: average_precision(*scored(predictions, name)) for name in names},
    }
