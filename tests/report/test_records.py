"""Damaged results: one line that names file and row, or a report all the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hargo.config import Study
from hargo.errors import UserError
from hargo.io import read_jsonl
from hargo.report.build import build
from hargo.report.results import read

PREDICTIONS = "evaluate/grpo/seed1/predictions.jsonl"
STEPS = "train/hargo/seed0/metrics.jsonl"


@pytest.fixture
def root(tree: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tree, tmp_path / "tree"))


def spoil(path: Path, number: int, change: dict[str, Any] | str) -> None:
    """Change keys of one row (counted from 1), or replace its line."""
    rows = read_jsonl(path)
    lines = [json.dumps(row) for row in rows]
    lines[number - 1] = change if isinstance(change, str) else json.dumps(rows[number - 1] | change)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None])
def test_a_reward_that_is_no_number_earns_nothing(study: Study, root: Path, tmp_path: Path, reward: Any) -> None:
    for path in (PREDICTIONS, "evaluate/sft/seed0/predictions.jsonl"):
        spoil(root / path, 45, {"reward": reward})
    build(study, root, tmp_path / "out")
    for name in ("summary.csv", "heterogeneity.csv", "per_task.csv"):
        assert "nan" not in (tmp_path / "out" / name).read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        (PREDICTIONS, '{"id": "race_c/0', "line 3: not valid JSON"),
        (PREDICTIONS, "17", "row 3: not an object"),
        (PREDICTIONS, {"reward": "high"}, "row 3: 'reward' is not a number or null"),
        (PREDICTIONS, {"correct": 1}, "row 3: 'correct' is not true or false"),
        (PREDICTIONS, {"task": "race_d"}, "row 3: unknown task 'race_d'; did you mean 'race_c'?"),
        (PREDICTIONS, {"scores": {"em": "x"}}, "row 3: 'scores' contains something"),
        (PREDICTIONS, {"choice": {"yes": float("-inf"), "no": 0.0}}, "row 3: a choice is not a finite number"),
        (PREDICTIONS, {"output": "\ud800"}, "row 3: 'output' contains half a surrogate pair"),
        (STEPS, '{"step": 3, "loss"', "line 3: not valid JSON"),
        (STEPS, "null", "row 3: not a record of a step"),
        (STEPS, {"reward/plp/mean": "high"}, "row 3: 'reward/plp/mean' is not a figure of a step"),
        (STEPS, {"dist/weight": [0.1, 0.2]}, "row 3: 'dist/weight' is not a figure of a step"),
        ("evaluate/baselines/predictions-1-nn.jsonl", "17", "row 3: not an object"),
        ("train/sft/seed0/run.json", None, "not a JSON object"),
    ],
)
def test_a_damaged_record_is_one_line(study: Study, root: Path, path: str, change: Any, said: str) -> None:
    if change is None:
        (root / path).write_text("[]")
    else:
        spoil(root / path, 3, change)
    with pytest.raises(UserError) as error:
        read(study, root)
    assert "\n" not in str(error.value) and f"{root / path}" in str(error.value) and said in str(error.value)


def test_steps_without_a_number_are_drawn_around(study: Study, root: Path, tmp_path: Path) -> None:
    for number in (3, 9):
        spoil(root / STEPS, number, {"reward/plp/mean": float("nan"), "dist/weight": [float("nan")] * 7})
    build(study, root, tmp_path / "out")
    assert "nan" not in (tmp_path / "out" / "figures" / "learning.svg").read_text(encoding="utf-8").lower()
