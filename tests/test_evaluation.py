"""Evaluation of a model folder: predictions in the order of the rows, judged apart from the reward."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tiny
import torch

from hargo.data.records import Row, load_rows
from hargo.errors import UserError
from hargo.evaluation import choice
from hargo.evaluation.run import evaluate, judge
from hargo.io import read_json, read_jsonl
from hargo.models.encode import encode
from hargo.models.load import load_model, load_tokenizer
from hargo.models.prepare import prepare
from hargo.training import stages


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("evaluation")
    study = tiny.study(sft={"epochs": 9, "max_steps": 60, "learning_rate": 1e-2})
    data = tiny.write_data(folder / "data")
    prepare(study, data, folder / "base")
    stages.sft(study, 0, folder / "base", data, folder / "sft", folder / "checkpoints")
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
    predictions = read_jsonl(tmp_path / "predictions.jsonl")
    assert {p["tokens"] for p in predictions} == {1}
    assert all(p["truncated"] for p in predictions if p["output"])


def test_judging_keeps_the_order_across_tasks():
    rows = [
        Row("mlperf/0", "mlperf", "how many?", "8"),
        Row("race_c/0", "race_c", "code", "yes"),
        Row("mlperf/1", "mlperf", "how many?", "16"),
        Row("race_c/1", "race_c", "code", "no"),
    ]
    got = judge(rows, ["8", "no", "7", "No."], [{}] * 4)
    assert [p["id"] for p in got] == [row.id for row in rows]
    assert [p["reward"] for p in got] == [1.0, 0.0, 0.0, 1.0]
    assert [p["correct"] for p in got] == [True, False, False, True]


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
    prompts = [example.prompt for example in encode(tokenizer, load_rows(trained / "data" / "eval.jsonl"), None)][:7]
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
