"""Evaluation of a model folder: predictions in the order of the rows, judged apart from the reward."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import own_tasks
import pytest
import tiny
import torch

from hargo.data.records import Row, load_rows, save_rows
from hargo.errors import UserError
from hargo.evaluation import choice, predictions
from hargo.evaluation.metrics import summarise
from hargo.evaluation.run import evaluate, judge
from hargo.io import read_json, read_jsonl, write_jsonl
from hargo.models.encode import encode
from hargo.models.load import load_model, load_tokenizer
from hargo.models.prepare import prepare
from hargo.tasks import Task, Verdict
from hargo.training.job import Places, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("evaluation")
    study = tiny.study(sft={"epochs": 9, "max_steps": 60, "learning_rate": 1e-2})
    data = tiny.write_data(folder / "data")
    prepare(study, data, folder / "base")
    train(study, "sft", 0, Places(folder / "base", data, folder / "sft", folder / "checkpoints"))
    return folder


#: by which a log-probability, written to four decimals, differs between batches: products of other shapes round
#: otherwise, by an amount that depends on the processor and the library
ROUNDING = 5e-4


def told(prediction: dict) -> dict:
    """A prediction without its log-probabilities."""
    return {key: value for key, value in prediction.items() if key not in ("choice", "perturbed")}


def probabilities(prediction: dict) -> list[dict]:
    """The log-probabilities of yes and no: of the row itself, then of its perturbed forms."""
    perturbed = prediction.get("perturbed", {})
    return [prediction["choice"], *(perturbed[kind] for kind in sorted(perturbed))]


def test_predictions_follow_the_rows_and_do_not_depend_on_the_batch(trained, tmp_path):
    rows = load_rows(trained / "data" / "eval.jsonl")
    found = []
    for size in (3, 64):
        study = tiny.study(evaluation={"batch_size": size})
        evaluate(study, trained / "sft" / "model", trained / "data", tmp_path / str(size))
        found.append(read_jsonl(tmp_path / str(size) / "predictions.jsonl"))
    for small, large in zip(*found, strict=True):
        assert told(small) == told(large)
        for one, other in zip(probabilities(small), probabilities(large), strict=True):
            assert one == pytest.approx(other, abs=ROUNDING)
    assert [p["id"] for p in found[0]] == [row.id for row in rows]
    assert [p["reference"] for p in found[0]] == [row.answer for row in rows]
    metrics = read_json(tmp_path / "64" / "metrics.json")
    right = sum(p["output"].strip() == row.answer for p, row in zip(found[0], rows, strict=True))
    assert metrics["race"]["accuracy"] == pytest.approx(100 * right / len(rows))
    assert sum(p["reward"] for p in found[0]) == right  # for yes and no, reward and judgement agree
    assert read_json(tmp_path / "64" / "run.json")["stage"] == "evaluate"


def test_answers_are_cut_at_the_bound_and_say_so(trained, tmp_path):
    study = tiny.study(evaluation={"max_new_tokens": {"race_c": 1}})
    evaluate(study, trained / "sft" / "model", trained / "data", tmp_path)
    found = read_jsonl(tmp_path / "predictions.jsonl")
    assert {p["tokens"] for p in found} == {1}
    assert all(p["truncated"] for p in found if p["output"])


def test_judging_keeps_the_order_across_tasks():
    rows = [
        Row("mlperf/0", "mlperf", "how many?", "8"),
        Row("race_c/0", "race_c", "code", "yes"),
        Row("mlperf/1", "mlperf", "how many?", "16"),
        Row("race_c/1", "race_c", "code", "no"),
    ]
    got = judge(rows, ["8", "no", "7", "No."], [{}] * 4)
    assert [p.id for p in got] == [row.id for row in rows]
    assert [p.first.reward for p in got] == [1.0, 0.0, 0.0, 1.0]
    assert [p.first.correct for p in got] == [True, False, False, True]


def test_no_rows_is_one_line(trained, tmp_path):
    (tmp_path / "eval.jsonl").write_text("")
    with pytest.raises(UserError, match="no evaluation rows"):
        evaluate(tiny.study(), trained / "sft" / "model", tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="no model here"):
        evaluate(tiny.study(), tmp_path, trained / "data", tmp_path / "out")


def test_choice_is_the_probability_of_the_first_token(trained):
    """Against a plain forward pass per prompt, whatever the batch; the scratch tokenizer spells yes in bytes."""
    model, tokenizer = (
        load_model(trained / "sft" / "model", torch.device("cpu")),
        load_tokenizer(trained / "sft" / "model"),
    )
    prompts = [example.prompt for example in encode(tokenizer, load_rows(trained / "data" / "eval.jsonl"))][:7]
    tokens = choice.first_tokens(tokenizer)
    assert tokens is not None and not set(tokens["yes"]) & set(tokens["no"])
    found = choice.choices(model, tokenizer, prompts, batch_rows=3)
    for prompt, one in zip(prompts, found, strict=True):
        logp = model(input_ids=torch.tensor([prompt])).logits[0, -1].detach().double().log_softmax(-1)
        for name in ("yes", "no"):
            assert one is not None and one[name] == pytest.approx(float(logp[tokens[name]].logsumexp(-1)), abs=1e-4)
    odds = [p["no"] - p["yes"] for p in found if p]
    assert [choice.p_yes(p) for p in found if p] == pytest.approx([1 / (1 + math.exp(o)) for o in odds])


def test_greedy_answers_agree_with_the_choice(trained, tmp_path):
    evaluate(tiny.study(), trained / "sft" / "model", trained / "data", tmp_path)
    decided = [p for p in read_jsonl(tmp_path / "predictions.jsonl") if p["output"] in ("yes", "no")]
    assert len(decided) >= 12
    for p in decided:
        other = "no" if p["output"] == "yes" else "yes"
        assert p["choice"][p["output"]] > p["choice"][other] - ROUNDING


def strict(path: Path) -> list[dict]:
    """The rows of a file, by a reader that knows no NaN and no Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path} holds {name}")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_row_that_is_too_long_is_undecided_and_the_others_are_answered(trained, tmp_path):
    rows = load_rows(trained / "data" / "eval.jsonl")
    long = replace(rows[1], prompt=rows[1].prompt + " x = x + 1;" * 2000)
    save_rows(tmp_path / "eval.jsonl", [rows[0], long, *rows[2:]])
    evaluate(tiny.study(), trained / "sft" / "model", tmp_path, tmp_path / "out")
    evaluate(tiny.study(), trained / "sft" / "model", trained / "data", tmp_path / "whole")
    found, whole = (strict(tmp_path / name / "predictions.jsonl") for name in ("out", "whole"))
    odd = found.pop(1)
    whole.pop(1)
    assert (odd["output"], odd["parsed"], odd["correct"], odd["reward"], odd["too_long"]) == (
        "",
        None,
        False,
        0.0,
        True,
    )
    assert "choice" not in odd and "perturbed" not in odd
    assert [(p["id"], p["output"]) for p in found] == [(p["id"], p["output"]) for p in whole]
    metrics = read_json(tmp_path / "out" / "metrics.json")
    assert metrics["tasks"]["race_c"]["too_long"] == 1 and metrics["race"]["undecided"] >= 1


def test_not_one_row_need_fit(trained, tmp_path):
    rows = [replace(row, prompt="x " * 9000) for row in load_rows(trained / "data" / "eval.jsonl")[:3]]
    save_rows(tmp_path / "eval.jsonl", rows)
    evaluate(tiny.study(), trained / "sft" / "model", tmp_path, tmp_path / "out")
    assert all(p["too_long"] for p in strict(tmp_path / "out" / "predictions.jsonl"))


def test_too_long_is_undecided_even_where_an_empty_answer_would_be_right(monkeypatch):
    own_tasks.register(monkeypatch, own_tasks.LOOKUP)
    [got] = judge([Row("lookup/0", "lookup", "p", "")], [""], [{"too_long": True}])
    assert (got.first.correct, got.first.parsed, got.first.reward) == (False, None, 0.0)


def test_what_is_no_number_never_reaches_a_file(monkeypatch, tmp_path, caplog):
    def reward(outputs, references):
        return [float("nan"), float("inf"), None, 1]

    def judged(outputs, references):
        return [Verdict("x", True, {"s": value}) for value in (float("nan"), float("-inf"), 0.5, 1)]

    own_tasks.register(monkeypatch, Task("odd", "Odd", 4, reward, judged))
    got = judge([Row(f"odd/{i}", "odd", "p", "x") for i in range(4)], ["x"] * 4, [{}] * 4)
    assert [p.first.reward for p in got] == [None, None, None, 1.0]
    assert [p.first.scores["s"] for p in got] == [0.0, 0.0, 0.5, 1.0]
    assert "odd: 3 answers have no usable reward, 2 scores are not finite numbers" in caplog.text
    predictions.write(tmp_path / "predictions.jsonl", got)
    write_jsonl(tmp_path / "metrics.jsonl", [summarise(got)])
    assert len(strict(tmp_path / "predictions.jsonl")) == 4
    assert strict(tmp_path / "metrics.jsonl")[0]["tasks"]["odd"]["reward"] == 0.25


def test_an_impossible_label_is_a_number_and_an_unknown_one_none(trained, monkeypatch):
    model, tokenizer = (
        load_model(trained / "sft" / "model", torch.device("cpu")),
        load_tokenizer(trained / "sft" / "model"),
    )
    tokens = choice.first_tokens(tokenizer)
    logits = torch.zeros(2, model.config.vocab_size)
    logits[0, tokens["yes"]] = -torch.inf
    logits[1] = torch.nan
    monkeypatch.setattr(choice, "next_logits", lambda *_: logits)
    sure, unknown = choice.choices(model, tokenizer, [[1], [1]])
    assert sure["yes"] == choice.IMPOSSIBLE and choice.p_yes(sure) == pytest.approx(0) and unknown is None


def test_a_yes_no_task_without_programs_is_evaluated(trained, tmp_path, monkeypatch):
    """It gets P(yes), and its prompts, in which there is no program, are not changed."""
    own_tasks.register(monkeypatch, own_tasks.DEADLOCK)
    study = tiny.study(tasks=["deadlock"], data={"source": "own", "protocol": "paper"})
    save_rows(tmp_path / "eval.jsonl", [Row(f"deadlock/{i}", "deadlock", "int x = 1;", "no") for i in range(3)])
    evaluate(study, trained / "sft" / "model", tmp_path, tmp_path / "out")
    found = strict(tmp_path / "out" / "predictions.jsonl")
    assert all(set(p["choice"]) == {"yes", "no"} and "perturbed" not in p for p in found)
