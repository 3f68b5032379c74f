"""metrics.jsonl: lines that any JSON reader takes, whatever a step has come to."""

from __future__ import annotations

import json
import math

import pytest
import torch

from hargo.training.log import StepLog
from hargo.training.rewards import figures


def strict(text: str) -> dict:
    """JSON as the standard has it: without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_a_figure_that_is_no_finite_number_is_null(tmp_path, caplog):
    log = StepLog(tmp_path, 0, 1, "test")
    odd = {"loss": math.nan, "kl": math.inf, "reward/mean": None, "dist/weight": [math.nan, 1.0], "dist/confidence": []}
    log.write({"step": 1, **odd, "entropy": 0.5, "tokens": 3, "seconds": 0.1})
    log.close()
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    record = strict(line)
    assert record["loss"] is record["kl"] is record["reward/mean"] is None
    assert record["dist/weight"] == [None, 1.0] and record["dist/confidence"] == [] and record["entropy"] == 0.5


def test_figures_of_no_reward_are_none_and_never_zero():
    class Row:
        task = "race_c"

    class Completion:
        ids, ended = (1, 2), True

    class Example:
        row = Row

    rewards = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    valid = torch.tensor([[True, False], [False, False]])
    found = figures([Example] * 2, [[Completion] * 2] * 2, rewards, valid, {"weight": rewards})
    assert found["reward/mean"] == found["reward/race_c/mean"] == 1.0 and found["reward/std"] is None
    assert found["left_out"] == 3 and found["dist/weight"] == pytest.approx([1.0] * 7)
    none = figures([Example] * 2, [[Completion] * 2] * 2, rewards * 0, valid & False, {})
    assert none["reward/mean"] is none["reward/race_c/mean"] is None and none["left_out"] == 4
