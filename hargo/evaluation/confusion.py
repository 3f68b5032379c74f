"""Confusion counts of the predictions of tasks with classes, and the rates that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hargo.data.programs import LABELS
from hargo.evaluation.predictions import Prediction
from hargo.tasks import load
from hargo.tasks.race import label

#: see `confusion`; a row of several answers adds the share of them
Counts = Mapping[str, float]

COUNTS = ("tp", "fp", "tn", "fn", "undecided", "undecided_positive")


def _all(c: Counts) -> float:
    return c["tp"] + c["fp"] + c["tn"] + c["fn"] + c["undecided"]


#: rate -> what counts add above and below the line, so that the rate of rows together is one of their sums
RATES: dict[str, Callable[[Counts], tuple[float, float]]] = {
    "precision": lambda c: (c["tp"], c["tp"] + c["fp"]),
    "recall": lambda c: (c["tp"], c["tp"] + c["fn"] + c["undecided_positive"]),
    "f1": lambda c: (2 * c["tp"], 2 * c["tp"] + c["fp"] + c["fn"] + c["undecided_positive"]),
    "accuracy": lambda c: (c["tp"] + c["tn"], _all(c)),
    "decided": lambda c: (_all(c) - c["undecided"], _all(c)),
}


def counts(prediction: Prediction) -> dict[str, float]:
    """What one row adds to each of `COUNTS`."""
    totals: dict[str, float] = dict.fromkeys(COUNTS, 0)
    positive, truth = load(prediction.task).positive, truth_of(prediction.task, prediction.reference)
    each = 1 / len(prediction.answers) if len(prediction.answers) > 1 else 1
    for answer in prediction.answers:
        if answer.parsed is None or truth is None:
            totals["undecided"] += each
            totals["undecided_positive"] += each * (truth == positive)
        else:
            hit = answer.parsed == truth
            totals[("t" if hit else "f") + ("p" if answer.parsed == positive else "n")] += each
    return totals


def confusion(predictions: Iterable[Prediction]) -> dict[str, float]:
    """Confusion counts of the predictions of tasks with classes and what follows from them, shares in percent.

    An answer of no class (`parsed` None), or a row whose reference has none, is `undecided`: it is
    counted as wrong, lowers recall where the truth is positive, and is never taken for a "no".
    `undecided_positive` is how many of them are truly positive; `decided` is the share of the others.
    """
    rows = [counts(prediction) for prediction in predictions]
    total = {key: sum(row[key] for row in rows) for key in COUNTS}
    return {**total, **rates(**total)}


def rates(
    tp: float, fp: float, tn: float, fn: float, undecided: float = 0, undecided_positive: float = 0
) -> dict[str, float]:
    """Precision, recall, F1, accuracy and the decided share, in percent; 0 where a denominator is 0.

    >>> {key: round(value, 2) for key, value in rates(tp=142, fp=19, tn=167, fn=14).items()}
    {'precision': 88.2, 'recall': 91.03, 'f1': 89.59, 'accuracy': 90.35, 'decided': 100.0}
    """
    total = dict(zip(COUNTS, (tp, fp, tn, fn, undecided, undecided_positive), strict=True))
    shares = {name: parts(total) for name, parts in RATES.items()}
    return {name: 100 * above / below if below else 0.0 for name, (above, below) in shares.items()}


def truth_of(task: str, reference: str) -> str | None:
    """The class of a reference; None where it has none."""
    spec = load(task)
    if spec.label is not None:
        return spec.label(reference)
    return label(reference) if spec.positive in LABELS else reference.strip() or None
