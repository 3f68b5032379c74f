"""Which figures a study has, as its tasks say, and what each evaluation row adds to one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hargo.config.registry import TASKS
from hargo.config.study import unknown
from hargo.errors import UserError
from hargo.evaluation.metrics import Prediction, confusion, reward_of, score_of
from hargo.tasks import load


@dataclass(frozen=True)
class Metric:
    """A figure of the tables: a ratio of sums over rows.

    key: its name in files and commands; title: column heading; decimals: for tables
    tasks: whose rows it is drawn from; all rows where empty
    kind: win_rate (against the SFT model), f1, accuracy, or the mean of the reward or of a `score` of the judgement
    scale: what the best possible value is shown as, 100 or 1
    headline: whether it is in the headline table and tested there
    """

    key: str
    title: str
    kind: Literal["win_rate", "f1", "accuracy", "reward", "score"]
    tasks: tuple[str, ...] = ()
    decimals: int = 2
    scale: float = 100.0
    score: str = ""
    headline: bool = False

    @property
    def words(self) -> str:
        """Its name in a sentence: `race F1`, `plp accuracy`, `EM`."""
        subject = self.key.removeprefix("accuracy_").removesuffix("_accuracy").removesuffix("_f1")
        what = {"f1": f"{subject} F1", "accuracy": f"{subject} accuracy"}
        return what.get(self.kind, self.title.removesuffix(" %"))

    def relevant(self, predictions: Sequence[Prediction]) -> list[Prediction]:
        """The predictions that it is drawn from."""
        return [p for p in predictions if not self.tasks or p["task"] in self.tasks]

    def parts(self, rows: Sequence[Prediction], outcomes: Mapping[str, str]) -> tuple[np.ndarray, np.ndarray]:
        """What each of its rows adds above and below the line, both [rows].

        outcomes: row id -> won, tied or lost against the SFT model; only WinRate needs them, and that model, which
            has none, ties with itself
        """
        if self.kind == "f1":
            counts = [confusion([p]) for p in rows]
            upper = np.array([2.0 * c["tp"] for c in counts])
            return self.scale * upper, upper + [c["fp"] + c["fn"] + c["undecided_positive"] for c in counts]
        return self.scale * np.array([self._share(p, outcomes) for p in rows]), np.ones(len(rows))

    def _share(self, row: Prediction, outcomes: Mapping[str, str]) -> float:
        if self.kind == "win_rate":
            return {"won": 1.0, "tied": 0.5, "lost": 0.0}[outcomes.get(row["id"], "tied")]
        if self.kind == "accuracy":
            return float(row["correct"])
        return reward_of(row) if self.kind == "reward" else score_of(row, self.score)

    def value(self, predictions: Sequence[Prediction]) -> float | None:
        """The figure itself, None without a row; 0 where nothing is below the line. Not for WinRate."""
        rows = self.relevant(predictions)
        upper, lower = self.parts(rows, {})
        return float(upper.sum() / max(lower.sum(), 1e-12)) if rows else None


def metrics(names: Iterable[str]) -> dict[str, Metric]:
    """Key -> every figure of these tasks: WinRate, then each task's in their order. UserError where two share a key."""
    found: dict[str, Metric] = {}
    for metric in _listed(list(names)):
        if found.setdefault(metric.key, metric) != metric:
            raise UserError(
                f"tasks {', '.join(metric.tasks)}: a figure {metric.key!r} is there already; "
                "give the task, its pool or its measure another name"
            )
    return found


def metric(key: str) -> Metric:
    """The figure of this key, whichever registered task it belongs to."""
    known = metrics(TASKS)
    if key not in known:
        raise UserError(unknown("metric", key, known))
    return known[key]


def _listed(names: list[str]) -> list[Metric]:
    """Headline figures first. A pool is listed by each of its tasks, always the same."""
    first = [Metric("win_rate", "WinRate %", "win_rate", headline=True)]
    later: list[Metric] = []
    for name in names:
        task = load(name)
        pool = task.counted_in
        own = [
            Metric(
                m.name,
                m.title,
                "reward" if m.score is None else "score",
                (name,),
                m.decimals,
                100.0 if m.percent else 1.0,
                m.score or "",
                m.headline,
            )
            for m in task.measures
        ]
        if pool is not None:
            together = tuple(other for other in names if load(other).counted_in == pool)
            first.append(Metric(f"{pool.name}_f1", f"{pool.title} F1 %", "f1", together, headline=True))
            if together != (name,):  # of one task alone it is that task's accuracy
                later.append(Metric(f"{pool.name}_accuracy", f"{pool.title} accuracy %", "accuracy", together))
        first += [m for m in own if m.headline]
        tested = pool is not None or any(m.headline for m in own)
        accuracy = Metric(f"accuracy_{name}", f"{task.title} %", "accuracy", (name,), headline=not tested)
        (later if tested else first).append(accuracy)
        later += [m for m in own if not m.headline]
    return [*first, *later]
