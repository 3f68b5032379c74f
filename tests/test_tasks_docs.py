"""The worked example in docs/adding-a-task.md, executed."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import hargo.tasks
from hargo.config import TASKS, study_from

PAGE = Path(__file__).resolve().parent.parent / "docs" / "adding-a-task.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_example_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, *uses = blocks("python")
    [line] = blocks("text")
    [study] = blocks("yaml")
    [(name, path)] = ast.literal_eval("{" + line + "}").items()
    assert f"hargo/tasks/{name}.py" in PAGE.read_text(encoding="utf-8")
    (tmp_path / f"{name}.py").write_text(module, encoding="utf-8")
    monkeypatch.setattr(hargo.tasks, "__path__", [*hargo.tasks.__path__, str(tmp_path)])
    monkeypatch.setitem(TASKS, name, path)
    try:
        scope: dict[str, Any] = {}
        assert len(uses) == 2
        for use in uses:
            exec(compile(use, str(PAGE), "exec"), scope)
        assert study_from(yaml.safe_load(study), str(PAGE)).tasks == [name]
    finally:
        sys.modules.pop(path, None)
