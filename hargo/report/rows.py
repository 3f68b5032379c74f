"""The evaluation rows behind a figure, and what each adds to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hargo.evaluation.measures import metric
from hargo.evaluation.metrics import Prediction
from hargo.evaluation.statistics import Sums
from hargo.report.results import Model


def relevant(predictions: list[Prediction], key: str) -> list[Prediction]:
    """The predictions that a metric is drawn from."""
    return metric(key).relevant(predictions)


def sums(models: Sequence[Model], key: str) -> Sums:
    """The metric of each model as a ratio of sums over its relevant rows; models answer the same rows."""
    found = metric(key)
    pairs = [found.parts(found.relevant(model.predictions), model.outcomes) for model in models]
    return Sums(np.array([upper for upper, _ in pairs]), np.array([lower for _, lower in pairs]))


def is_share(models: Sequence[Model], key: str) -> bool:
    """Whether the metric is a share in percent: every row adds 0 or 100 to a mean."""
    found = metric(key)
    if found.kind in ("win_rate", "f1") or found.scale != 100:
        return found.kind == "accuracy"
    made = sums(models, key)
    return bool(np.isin(made.upper, (0.0, 100.0)).all())
