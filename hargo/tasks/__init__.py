"""Tasks: one file each, found by name through the registry."""

import math
from collections.abc import Sequence

from hargo.config.registry import TASKS
from hargo.config.tables import resolve
from hargo.tasks.base import Measure, Pool, Task, Verdict

__all__ = ["Measure", "Pool", "Task", "Verdict", "load", "rewards"]


def load(name: str) -> Task:
    """The task registered as `name`; UserError where there is none, naming the nearest one."""
    task: Task = resolve(TASKS[name])
    return task


def rewards(names: Sequence[str], outputs: Sequence[str], references: Sequence[str]) -> list[float | None]:
    """The reward of each answer to a row of the task named beside it; None where it has none, or no finite number."""
    values: list[float | None] = [None] * len(names)
    for name in sorted(set(names)):
        mine = [i for i, other in enumerate(names) if other == name]
        part = load(name).reward([outputs[i] for i in mine], [references[i] for i in mine])
        for i, value in zip(mine, part, strict=True):
            values[i] = float(value) if value is not None and math.isfinite(value) else None
    return values
