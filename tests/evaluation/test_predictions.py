"""Predictions: the bytes of their file, several answers to a row, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_metrics import prediction

from hargo.errors import UserError
from hargo.evaluation.metrics import summarise
from hargo.evaluation.predictions import Prediction, read, write

LINE = (
    '{"id": "race_c/0", "task": "race_c", "output": "yés", "reference": "yes", "reward": 1.0, "parsed": null, '
    '"correct": false, "scores": {"s": 1}, "tokens": 2, "truncated": false, '
    '"choice": {"yes": -0.1, "no": -2.5}, "perturbed": {"rename": {"yes": -1.0, "no": -2.0}}, "too_long": true}\n'
)


def several(*right: bool, **over: Any) -> Prediction:
    """A row of race_c with as many answers, right or not."""
    answers = [
        {"output": "yes" if ok else "no", "reward": float(ok), "parsed": "yes" if ok else "no", "correct": ok,
         "scores": {}, "tokens": 1, "truncated": False}
        for ok in right
    ]  # fmt: skip
    return prediction(**{**answers[0], "answers": answers, **over})


def test_a_file_of_single_answers_is_written_as_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINE, encoding="utf-8")
    write(tmp_path / "b.jsonl", read(tmp_path / "a.jsonl"))
    assert (tmp_path / "b.jsonl").read_text(encoding="utf-8") == LINE


def test_several_answers_come_back_and_count_by_their_shares(tmp_path: Path) -> None:
    rows = [several(True, False, False, True), several(False, False, False, True, id="race_c/1")]
    write(tmp_path / "a.jsonl", rows)
    assert read(tmp_path / "a.jsonl") == rows
    found = summarise(rows)
    assert found["accuracy"] == 37.5 and found["tasks"]["race_c"]["reward"] == 0.375
    assert (found["race"]["tp"], found["race"]["fn"], found["race"]["accuracy"]) == (0.75, 1.25, 37.5)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([], "'answers' is not a list"),
        ([{"output": "yes"}], "answer 1: no key 'reward'"),
        (several(False, True).record()["answers"], "'answers' does not begin with the answer of the row"),
    ],
)
def test_damaged_answers_are_one_line(tmp_path: Path, answers: Any, said: str) -> None:
    from hargo.io import write_jsonl

    write_jsonl(tmp_path / "a.jsonl", [several(True, False).record() | {"answers": answers}])
    with pytest.raises(UserError, match=f"a.jsonl, row 1: {said}.*; evaluate this model again"):
        read(tmp_path / "a.jsonl")
