"""Baselines: known answers on small sets, and the level of the published figures on the real files."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import own_tasks
import pytest

from hargo.config import study_from
from hargo.config.options import DataOptions
from hargo.data import build
from hargo.data.records import Row, save_rows
from hargo.errors import UserError
from hargo.evaluation.baselines import baselines, run
from hargo.io import read_json, read_jsonl

RACE = ["race_c", "race_fortran"]


def ask(number: int, prompt: str, answer: str, task: str = "race_c") -> Row:
    return Row(f"{task}/{number}", task, prompt, answer)


def test_small_set() -> None:
    train = [
        ask(0, "reduction clause sum", "no"),
        ask(1, "reduction clause product", "no"),
        ask(2, "shared counter increment", "yes"),
        ask(3, "Which processor?", "EPYC", "mlperf"),
        ask(4, "Which processor?", "EPYC", "mlperf"),
        ask(5, "How many accelerators?", "8", "mlperf"),
    ]
    held = [
        ask(6, "shared counter", "yes"),
        ask(7, "How many accelerators now?", "8", "mlperf"),
        ask(8, "unseen task", "?", "plp"),
    ]
    answers = baselines(train, held, 0)
    assert answers["majority"] == ["no", "EPYC", None]
    assert answers["all yes"] == ["yes", None, None]
    assert answers["1-NN"] == ["yes", "8", None]
    assert answers["TF-IDF + LR"][1:] == [None, None]
    assert answers["TF-IDF + LR"][0] in ("yes", "no")
    assert baselines(train, held, 0) == answers


def test_one_class_and_blank_prompts() -> None:
    one = baselines([ask(0, "a loop", "yes"), ask(1, "b loop", "yes")], [ask(2, "c", "no")], 0)
    assert one == {"majority": ["yes"], "all yes": ["yes"], "1-NN": ["yes"], "TF-IDF + LR": ["yes"]}
    blank = baselines([ask(0, "", "no"), ask(1, " ", "no"), ask(2, "", "yes")], [ask(3, "", "no")], 0)
    assert blank == {"majority": ["no"], "all yes": ["yes"], "1-NN": ["no"], "TF-IDF + LR": ["no"]}


def test_no_label_in_training() -> None:
    answers = baselines([ask(0, "code", "' marker")], [ask(1, "code", "no")], 0)
    assert answers == {"majority": ["' marker"], "all yes": ["yes"], "1-NN": ["' marker"], "TF-IDF + LR": [None]}


def test_run_writes_predictions_and_metrics(tmp_path: Path) -> None:
    study = study_from({"name": "t", "tasks": ["race_c", "mlperf"], "pretrain": {}}, "test")
    train = [ask(0, "sum reduction", "no"), ask(1, "shared counter", "yes"), ask(2, "How many?", "8", "mlperf")]
    held = [ask(3, "shared counter two", "yes"), ask(4, "How many nodes?", "8", "mlperf")]
    save_rows(tmp_path / "train.jsonl", train)
    save_rows(tmp_path / "eval.jsonl", held)
    run(study, tmp_path, tmp_path / "out")
    near = read_jsonl(tmp_path / "out" / "predictions-1-NN.jsonl")
    assert [(p["id"], p["output"], p["reward"], p["correct"]) for p in near] == [
        ("race_c/3", "yes", 1.0, True),
        ("mlperf/4", "8", 1.0, True),
    ]
    linear = read_jsonl(tmp_path / "out" / "predictions-TF-IDF+LR.jsonl")
    assert [p["id"] for p in linear] == ["race_c/3"]
    metrics = read_json(tmp_path / "out" / "metrics.json")
    assert list(metrics) == ["majority", "all yes", "1-NN", "TF-IDF + LR"]
    assert (metrics["1-NN"]["accuracy"], metrics["1-NN"]["em"]) == (100.0, 100.0)


def race_figures(folder: Path, protocol: str, seed: int) -> dict[str, tuple[float, float]]:
    """Baseline -> accuracy and F1 of the race class in percent, both race tasks pooled."""
    options = DataOptions(source="hpcgpt", path=str(folder), protocol=protocol, split_seed=seed)
    split = build.build(options, RACE)
    truth = [row.answer for row in split.eval]
    figures = {}
    for name, answers in baselines(split.train, split.eval, seed).items():
        hits = sum(a == b for a, b in zip(answers, truth, strict=True))
        both = sum(a == b == "yes" for a, b in zip(answers, truth, strict=True))
        figures[name] = (100 * hits / len(truth), 200 * both / (answers.count("yes") + truth.count("yes")))
    return figures


def test_tfidf_is_level_with_the_paper_on_a_random_split(shared_data: Path) -> None:
    figures = race_figures(shared_data / "hpcgpt", "paper", 0)
    assert 89 <= figures["TF-IDF + LR"][0] <= 91
    assert 80 <= figures["1-NN"][0] <= 87


@pytest.mark.slow
def test_baselines_over_five_splits(shared_data: Path) -> None:
    def mean(protocol: str) -> dict[str, tuple[float, float]]:
        runs = [race_figures(shared_data / "hpcgpt", protocol, seed) for seed in range(5)]
        return {name: (fmean(r[name][0] for r in runs), fmean(r[name][1] for r in runs)) for name in runs[0]}

    paper, strict = mean("paper"), mean("strict")
    assert 89 <= paper["TF-IDF + LR"][0] <= 91 and 88 <= paper["TF-IDF + LR"][1] <= 91
    assert abs(paper["1-NN"][0] - 83.6) < 2 and abs(paper["1-NN"][1] - 82.1) < 2
    assert abs(paper["majority"][0] - 53.7) < 2 and abs(strict["majority"][0] - 53.1) < 3
    assert abs(strict["TF-IDF + LR"][0] - 74.7) < 5
    assert strict["1-NN"][0] < paper["1-NN"][0] - 10


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_of_a_split_have_bounds(seed: int) -> None:
    with pytest.raises(UserError, match=r"data\.split_seed"):
        study_from({"name": "x", "pretrain": {}, "data": {"split_seed": seed}}, "test")


def test_what_scikit_learn_complains_about_is_not_swallowed() -> None:
    rows = [ask(i, f"prompt {i} {said}", said) for i, said in enumerate(["yes", "no"] * 4)]
    assert baselines(rows, rows, 2**32 - 1)["TF-IDF + LR"] == ["yes", "no"] * 4
    with pytest.raises(ValueError, match="random_state"):
        baselines(rows, rows, -1)


def test_regression_is_by_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Race rows do not teach another yes/no task, nor the other way round."""
    own_tasks.register(monkeypatch, own_tasks.DEADLOCK)
    races = [ask(i, f"lock shared {i}", "yes") if i % 2 else ask(i, f"private {i}", "no") for i in range(8)]
    locks = [ask(i, f"lock shared {i}", "no", "deadlock") if i % 2 else ask(i, f"private {i}", "yes", "deadlock")
             for i in range(8)]  # fmt: skip
    found = baselines([*races, *locks], [races[1], locks[1]], 0)
    assert found["TF-IDF + LR"] == ["yes", "no"] and found["all yes"] == ["yes", "yes"]
