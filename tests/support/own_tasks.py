"""Tasks and a data source as a user would add them, registered for a test."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from hargo.config import SOURCES, TASKS
from hargo.tasks import Task, Verdict
from hargo.tasks.race import judge, reward


def exact(outputs: Sequence[str], references: Sequence[str]) -> list[float | None]:
    return [float(output == reference) for output, reference in zip(outputs, references, strict=True)]


def same(outputs: Sequence[str], references: Sequence[str]) -> list[Verdict]:
    return [Verdict(output or None, output == reference) for output, reference in zip(outputs, references, strict=True)]


LOOKUP = Task("lookup", "Lookup", max_new_tokens=4, reward=exact, judge=same)
DEADLOCK = Task("deadlock", "Deadlock", max_new_tokens=4, reward=reward, judge=judge, positive="yes")


def register(monkeypatch: pytest.MonkeyPatch, *tasks: Task) -> None:
    """Make tasks, and a source `own` that has rows for them and for race_c, known under their names."""
    source = ModuleType("own_source")
    source.TASKS = (*(task.name for task in tasks), "race_c")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, source.__name__, source)
    monkeypatch.setitem(SOURCES, "own", source.__name__)
    for task in tasks:
        module = ModuleType(f"own_{task.name}")
        module.TASK = task  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(TASKS, task.name, f"{module.__name__}:TASK")
