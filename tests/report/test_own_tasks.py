"""A report on tasks that the project does not bring along: warnings, figures and tests come from the tasks."""

from __future__ import annotations

import csv
from hashlib import sha256
from pathlib import Path

import own_tasks
import pytest

from hargo.config import Study, study_from
from hargo.data.records import Row, save_rows
from hargo.errors import UserError
from hargo.evaluation import predictions as files
from hargo.evaluation.confusion import confusion
from hargo.evaluation.headline import metrics
from hargo.evaluation.metrics import summarise
from hargo.evaluation.run import judge
from hargo.io import write_json, write_jsonl
from hargo.layout import StudyFolder
from hargo.report import comparisons, level
from hargo.report.build import build
from hargo.report.render import markdown
from hargo.report.results import Results, read
from hargo.report.sections import sections
from hargo.tasks import Measure, Task

N = 20


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Study:
    own_tasks.register(monkeypatch, own_tasks.LOOKUP, own_tasks.DEADLOCK)
    value = {"name": "own", "seeds": [0, 1], "data": {"source": "own"}, "pretrain": {}, "methods": {"grpo": None}}
    return study_from(value, "test")


def right(row: Row, number: int, share: float) -> str:
    """An answer, right for that share of the rows."""
    wrong = {"yes": "no", "no": "yes"}.get(row.answer, "?")
    return row.answer if number % N < share * N else wrong


def unlike(number: int) -> str:
    """A prompt that is no near-duplicate of another number's."""
    return sha256(str(number).encode()).hexdigest()


@pytest.fixture
def results(study: Study, tmp_path: Path) -> Results:
    """Models are right on 9 of 10 races and no lookup, and take every program for one without a deadlock."""
    root = tmp_path / "own"
    rows = [
        Row(f"{task}/{i}", task, unlike(i), str(i) if task == "lookup" else "yes" if i % 2 else "no")
        for task in study.tasks
        for i in range(N)
    ]
    save_rows(root / "data" / "eval.jsonl", rows)
    save_rows(root / "data" / "train.jsonl", rows)
    skill = {"race_c": 0.9, "lookup": 0.0}
    answers = ["no" if r.task == "deadlock" else right(r, i, skill[r.task]) for i, r in enumerate(rows)]
    extra = [{"choice": {"yes": -1.0, "no": -0.5}} if row.task != "lookup" else {} for row in rows]
    for method in ("sft", "grpo"):
        for seed in study.seeds:
            trained = StudyFolder(root).run(method, seed)
            write_jsonl(trained / "metrics.jsonl", [{"step": 1, "loss": 1.0}])
            where = StudyFolder(root).evaluation(method, seed)
            files.write(where / "predictions.jsonl", judge(rows, answers, extra))
    near = judge(rows, [right(row, i, 0.75) for i, row in enumerate(rows)], [{}] * len(rows))
    files.write(root / "evaluate/baselines/predictions-1-NN.jsonl", near)
    write_json(root / "evaluate/baselines/metrics.json", {})
    return read(study, root)


def test_a_baseline_that_keeps_up_on_an_own_task_is_warned_of(results: Results) -> None:
    said = level.level_baselines(results)
    named = {line.split(":")[0]: line for line in said}
    assert {"lookup accuracy", "deadlock F1", "deadlock accuracy"} <= named.keys()
    assert "has 0.0 %" in named["lookup accuracy"] and "above it 1-NN 75.0 %" in named["lookup accuracy"]


def test_own_tasks_are_tested_and_the_papers_numbers_are_not_beside_them(results: Results, tmp_path: Path) -> None:
    assert set(comparisons.headline_metrics(results)) == {"win_rate", "accuracy_lookup", "deadlock_f1", "race_f1"}
    build(results.study, results.folder, tmp_path / "out")
    with (tmp_path / "out" / "evidence.csv").open(encoding="utf-8", newline="") as file:
        assert {"accuracy_lookup", "deadlock_f1"} <= {row["metric"] for row in csv.DictReader(file)}
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "53.17" not in text and "| paper |" not in text  # GRPO's WinRate in the paper
    assert "| GRPO | Lookup % | +0.00 |" in text
    with (tmp_path / "out" / "summary.csv").open(encoding="utf-8", newline="") as file:
        assert not any("paper" in column for column in next(csv.reader(file)))


def test_yes_no_tasks_are_pooled_with_those_of_the_same_question_only(results: Results) -> None:
    model = results.models["sft"][0]
    races = [p for p in model.predictions if p.task == "race_c"]
    assert model.metrics["race"] == confusion(races) and model.figures["race_f1"] == pytest.approx(90)
    assert model.figures["deadlock_f1"] == 0 and model.metrics["tasks"]["deadlock"]["confusion"]["fn"] == N / 2
    assert [(pool.name, names) for pool, names in results.pools.items()] == [
        ("deadlock", ["deadlock"]),
        ("race", ["race_c"]),
    ]
    text = markdown.render("x", sections(results, set()))
    assert text.count("calibration, mean ± deviation over seeds") == 2
    assert "Deadlock, positive class: yes" in text and "Data race, C/C++, positive class: yes" in text


def test_classes_need_not_be_yes_and_no(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("kind", "Kind", 4, own_tasks.exact, own_tasks.same, positive="gather")
    own_tasks.register(monkeypatch, task)
    rows = [Row(f"kind/{i}", "kind", "p", answer) for i, answer in enumerate(["gather", "scatter", "gather"])]
    found = summarise(judge(rows, ["gather", "gather", "scatter"], [{}] * 3))["tasks"]["kind"]["confusion"]
    assert (found["tp"], found["fp"], found["fn"], found["tn"], found["undecided"]) == (1, 1, 1, 0, 0)


def test_a_measure_of_an_own_task_is_a_figure_and_its_name_must_be_free(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(
        "timing", "Timing", 4, own_tasks.exact, own_tasks.same, measures=(Measure("payoff", "Payoff", decimals=3),)
    )
    own_tasks.register(monkeypatch, task)
    found = metrics(["timing"])
    assert [key for key, metric in found.items() if metric.headline] == ["win_rate", "payoff"]
    rows = judge([Row(f"timing/{i}", "timing", "p", "1") for i in range(4)], ["1", "1", "1", "2"], [{}] * 4)
    assert found["payoff"].value(rows) == 0.75 and summarise(rows)["payoff"] == 0.75
    taken = Task(
        "timing", "Timing", 4, own_tasks.exact, own_tasks.same, measures=(Measure("em", "EM %", percent=True),)
    )
    own_tasks.register(monkeypatch, taken)
    with pytest.raises(UserError, match="a figure 'em' already exists"):
        metrics(["mlperf", "timing"])
