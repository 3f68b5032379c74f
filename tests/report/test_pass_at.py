"""A metric of several answers is one entry in its task, and from there in table, interval, test and CSV."""

from __future__ import annotations

import csv
import random
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import own_tasks
import pytest
from test_own_tasks import unlike

from hargo.config import study_from
from hargo.data.records import Row, save_rows
from hargo.errors import UserError
from hargo.evaluation import predictions as files
from hargo.evaluation.headline import metric
from hargo.evaluation.predictions import Answer, Prediction
from hargo.evaluation.run import judge
from hargo.io import write_json, write_jsonl
from hargo.layout import StudyFolder
from hargo.report.build import build
from hargo.tasks.sampled import pass_at

ROWS, ANSWERS = 40, 6


def predict(rows: list[Row], skill: float, rng: random.Random) -> list[Prediction]:
    def answers(row: Row) -> tuple[Answer, ...]:
        return tuple(answer(row, skill, rng) for _ in range(ANSWERS))

    return [Prediction(id=row.id, task=row.task, reference=row.answer, answers=answers(row)) for row in rows]


def answer(row: Row, skill: float, rng: random.Random) -> Answer:
    right = rng.random() < skill
    said = row.answer if right else "?"
    return Answer(output=said, reward=float(right), parsed=said, correct=right, tokens=1)


@pytest.fixture
def pass_at_3(monkeypatch: pytest.MonkeyPatch) -> None:
    own_tasks.register(monkeypatch, replace(own_tasks.LOOKUP, measures=(pass_at(3),)))


@pytest.mark.usefixtures("pass_at_3")
def test_one_entry_is_all_that_a_metric_takes(tmp_path: Path) -> None:
    value = {"name": "own", "seeds": [0, 1, 2], "tasks": ["lookup"], "data": {"source": "own"}, "pretrain": {}}
    study = study_from(value | {"methods": {"grpo": None}}, "test")
    root = tmp_path / "own"
    rows = [Row(f"lookup/{i}", "lookup", unlike(i), str(i)) for i in range(ROWS)]
    save_rows(root / "data" / "eval.jsonl", rows)
    save_rows(root / "data" / "train.jsonl", rows)
    expected = []
    for method, skill in (("sft", 0.1), ("grpo", 0.5)):
        for seed in study.seeds:
            write_jsonl(StudyFolder(root).run(method, seed) / "metrics.jsonl", [{"step": 1, "loss": 1.0}])
            made = predict(rows, skill, random.Random(f"{method}{seed}"))
            files.write(StudyFolder(root).evaluation(method, seed) / "predictions.jsonl", made)
            draws = [any(a.correct for a in some) for p in made for some in combinations(p.answers, 3)]
            expected += [100 * sum(draws) / len(draws)] if method == "grpo" else []
    near = judge(rows, ["?"] * ROWS, [{}] * ROWS)
    files.write(root / "evaluate/baselines/predictions-1-NN.jsonl", near)
    write_json(root / "evaluate/baselines/metrics.json", {})
    build(study, root, tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8").replace("\\", "")
    assert re.search(r"^\| Method \| WinRate % \| pass@3 % \|$", text, re.MULTILINE)
    assert re.search(r"^\| GRPO \| [^|]+ \| \d\d\.\d\d \[\d\d\.\d\d, \d\d\.\d\d\]\* \|$", text, re.MULTILINE)
    assert re.search(r"^\| GRPO \| pass@3 % \| \+\d\d\.\d\d \|.*\| 0\.0\d\d \| more than noise \|$", text, re.MULTILINE)
    with (tmp_path / "out" / "summary.csv").open(encoding="utf-8", newline="") as file:
        summary = {row["method"]: row for row in csv.DictReader(file)}
    assert float(summary["grpo"]["pass_at_3_mean"]) == pytest.approx(sum(expected) / 3, abs=1e-5)
    assert float(summary["grpo"]["pass_at_3_p_sft"]) < 0.05 and summary["grpo"]["pass_at_3_marks"] == "*"
    assert summary["1-NN"]["pass_at_3_mean"] == ""  # it has one answer to a row
    with (tmp_path / "out" / "evidence.csv").open(encoding="utf-8", newline="") as file:
        assert any(row["metric"] == "pass_at_3" and float(row["p_holm"]) < 0.05 for row in csv.DictReader(file))


@pytest.mark.usefixtures("pass_at_3")
def test_rows_with_too_few_answers_are_not_left_out_in_silence() -> None:
    rows = [Row(f"lookup/{i}", "lookup", "p", "1") for i in range(2)]
    full, other = predict(rows, 1.0, random.Random(0))
    short = replace(other, answers=other.answers[:2])
    assert metric("pass_at_3").value([short]) is None
    with pytest.raises(UserError, match=r"pass@3 %: row 'lookup/1' has 2 answers and others 3 or more"):
        metric("pass_at_3").value([full, short])
    assert metric("pass_at_3").value([full, replace(short, too_long=True)]) == 50
    assert metric("pass_at_3").largest() == 100
