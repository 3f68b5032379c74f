"""Tasks: one file each, found by name through the registry."""

from hargo.config.registry import TASKS, resolve
from hargo.errors import UserError
from hargo.tasks.base import Measure, Pool, Task, Verdict

__all__ = ["Measure", "Pool", "Task", "Verdict", "load"]


def load(name: str) -> Task:
    """The task registered as `name`; UserError where there is none, naming the nearest one."""
    if name not in TASKS:
        from hargo.config.study import unknown

        raise UserError(unknown("task", name, TASKS))
    task: Task = resolve(TASKS[name], "TASK")
    return task
