"""The metrics of a study, each defined once: what a row adds above and below the line, and how the ratio is shown.

Table cell, interval, test, CSV column, metrics.json and warnings all ask the `Metric`. A study has WinRate, F1 and
accuracy of each pool of its tasks, and of each task its accuracy and its own `measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

import numpy as np

from hargo.config.registry import TASKS
from hargo.config.study import unknown
from hargo.errors import UserError
from hargo.evaluation.confusion import RATES, counts
from hargo.evaluation.predictions import Answer, Prediction
from hargo.evaluation.statistics import Sums
from hargo.tasks import Measure, load

#: (prediction, its outcome against the first reference: won, tied or lost) -> what it adds above and below the line
Parts = Callable[[Prediction, str], tuple[float, float]]

#: what an outcome adds to WinRate
POINTS = {"won": 1.0, "tied": 0.5, "lost": 0.0}


@dataclass(frozen=True)
class Metric:
    """A ratio of sums over rows, times `scale`.

    name: its key in files and commands; title: column heading; words: its name in a sentence
    parts: what a row adds above and below the line
    tasks: whose rows it is drawn from; all rows where empty
    answers: how many answers a row must have, at least
    scale: the best possible value, 100 for percent; decimals: for tables
    headline: whether it is in the headline table and tested there
    relative: whether it is measured against the first reference's model of the same seed, which has none itself
    share: whether it is a percentage of rows, so that its interval is that of a share where rows count whole or not
    warned: whether the report warns when a baseline keeps up on it
    """

    name: str
    title: str
    words: str
    parts: Parts
    tasks: tuple[str, ...] = ()
    answers: int = 1
    scale: float = 100.0
    decimals: int = 2
    headline: bool = False
    relative: bool = False
    share: bool = False
    warned: bool = False

    def relevant(self, predictions: Sequence[Prediction]) -> list[Prediction]:
        """The predictions that it is drawn from; none where no row has enough answers, UserError where only some do.

        A row that is too long for the model needs no more answers, since it has none.
        """
        rows = [p for p in predictions if not self.tasks or p.task in self.tasks]
        short = [p for p in rows if len(p.answers) < self.answers]
        if len(short) == len(rows):
            return []
        for p in short:
            if not p.too_long:
                raise UserError(
                    f"{self.title}: row {p.id!r} has {len(p.answers)} answers and others {self.answers} or more; "
                    "evaluate this model again, with the same number of answers to every row"
                )
        return rows

    def sums(self, predictions: Sequence[Prediction], outcomes: Mapping[str, str]) -> Sums:
        """What each relevant row of one model adds, [1, rows]. outcomes: row id -> outcome; without one it is tied."""
        rows = self.relevant(predictions)
        parts = np.array([self.parts(p, outcomes.get(p.id, "tied")) for p in rows], dtype=float).reshape(-1, 2)
        return Sums(self.scale * parts[None, :, 0], parts[None, :, 1])

    def value(self, predictions: Sequence[Prediction]) -> float | None:
        """The figure itself as in metrics.json, None without a row; 0 where nothing is below the line. Not of WinRate.

        Each sum is rounded once; the tables' `sums(...).values()` may differ from it in the last bit.
        """
        parts = [self.parts(p, "tied") for p in self.relevant(predictions)]
        above, below = fsum(a for a, _ in parts), fsum(b for _, b in parts)
        return self.scale * (above / below if below else 0.0) if parts else None

    def largest(self, from_level: bool = False) -> float:
        """The largest possible difference. from_level: from the reference of a relative metric, at one half."""
        return self.scale / 2 if self.relative and from_level else self.scale


def mean(value: Callable[[Prediction], float]) -> Parts:
    """The parts of a mean over rows."""
    return lambda prediction, _: (value(prediction), 1.0)


def rate(name: str) -> Parts:
    """The parts of one of the `RATES` of confusion counts."""
    return lambda prediction, _: RATES[name](counts(prediction))


def correct(prediction: Prediction) -> float:
    """The share of its answers that are right."""
    return prediction.mean(lambda answer: answer.correct)


def earned(prediction: Prediction) -> float:
    """The mean reward of its answers."""
    return prediction.mean(lambda answer: answer.earned)


def score(name: str) -> Callable[[Prediction], float]:
    """The mean over answers of a score of the judgement."""
    return lambda prediction: prediction.mean(lambda answer: answer.score(name))


WIN_RATE = Metric(
    "win_rate", "WinRate %", "WinRate", lambda _, outcome: (POINTS[outcome], 1.0), headline=True, relative=True
)
ACCURACY = Metric("accuracy", "Accuracy %", "accuracy", mean(correct), share=True)
REWARD = Metric("reward", "Reward", "reward", mean(earned), scale=1.0)


def metrics(names: Iterable[str]) -> dict[str, Metric]:
    """Name -> metric of these tasks: WinRate, then each task's in their order. UserError where two share a name."""
    by_name: dict[str, Metric] = {}
    for metric in _listed(list(dict.fromkeys(names))):
        if by_name.setdefault(metric.name, metric) is not metric:
            raise UserError(
                f"tasks {', '.join(metric.tasks)}: a figure {metric.name!r} already exists; "
                "give the task, its pool or its measure another name"
            )
    return by_name


def metric(name: str) -> Metric:
    """The metric of this name, whichever registered task it belongs to."""
    known = metrics(TASKS)
    if name not in known:
        raise UserError(unknown("metric", name, known))
    return known[name]


def of_measure(measure: Measure, task: str) -> Metric:
    """A task's own measure as a metric of its rows."""
    named = measure.score
    value = earned if named is None else score(named) if isinstance(named, str) else _judged(named)
    return Metric(
        measure.name,
        measure.title,
        measure.title.removesuffix(" %"),
        mean(value),
        (task,),
        measure.answers,
        100.0 if measure.percent else 1.0,
        measure.decimals,
        measure.headline,
        share=measure.percent,
        warned=measure.headline,
    )


def _judged(value: Callable[[Sequence[Answer]], float]) -> Callable[[Prediction], float]:
    return lambda prediction: 0.0 if prediction.too_long else value(prediction.answers)


def _listed(names: list[str]) -> list[Metric]:
    """Headline metrics first; those of a pool with the first of its tasks."""
    first, later = [WIN_RATE], []
    pools = set()
    for name in names:
        task = load(name)
        pool = task.counted_in
        own = [of_measure(measure, name) for measure in task.measures]
        together = tuple(other for other in names if pool is not None and load(other).counted_in == pool)
        pooled = len(together) > 1  # of one task alone the pool's accuracy is that task's
        if pool is not None and pool not in pools:
            pools.add(pool)
            title, word = f"{pool.title} F1 %", f"{pool.name} F1"
            first.append(Metric(f"{pool.name}_f1", title, word, rate("f1"), together, headline=True, warned=True))
            if pooled:
                title, word = f"{pool.title} accuracy %", f"{pool.name} accuracy"
                later.append(
                    replace(
                        ACCURACY, name=f"{pool.name}_accuracy", title=title, words=word, tasks=together, warned=True
                    )
                )
        tested = pool is not None or any(m.headline for m in own)
        first += [m for m in own if m.headline]
        (later if tested else first).append(
            replace(
                ACCURACY,
                name=f"accuracy_{name}",
                title=f"{task.title} %",
                words=f"{name} accuracy",
                tasks=(name,),
                headline=not tested,
                warned=not pooled,
            )
        )
        later += [m for m in own if not m.headline]
    return [*first, *later]
