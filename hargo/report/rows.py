"""The evaluation rows behind a figure, and what each adds to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hargo.evaluation.headline import metric
from hargo.evaluation.predictions import Prediction
from hargo.evaluation.statistics import Sums
from hargo.report.results import Model


def relevant(predictions: list[Prediction], name: str) -> list[Prediction]:
    """The predictions that a metric is drawn from."""
    return metric(name).relevant(predictions)


def sums(models: Sequence[Model], name: str) -> Sums:
    """The metric of each model as a ratio of sums over its relevant rows; models answer the same rows."""
    parts = [metric(name).sums(model.predictions, model.outcomes) for model in models]
    return Sums(np.concatenate([one.upper for one in parts]), np.concatenate([one.lower for one in parts]))


def is_share(models: Sequence[Model], name: str) -> bool:
    """Whether the metric is a share in percent: every row adds 0 or 100 to a mean."""
    return metric(name).share and bool(np.isin(sums(models, name).upper, (0.0, 100.0)).all())
