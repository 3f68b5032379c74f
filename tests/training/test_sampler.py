"""A sampler from outside: training, pairs and evaluation get it from the study, tell it of new weights and close it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from hargo.config import registry
from hargo.config.code import stage_code
from hargo.config.options import SamplerOptions
from hargo.engine.pack import Group, pack, score
from hargo.errors import UserError
from hargo.evaluation.run import evaluate
from hargo.io import read_jsonl
from hargo.rollout import Completion, Request, Rollout
from hargo.training.job import Places, train
from hargo.training.preferences import preferences

EVENTS: list[str] = []


class Fixed:
    """Answers yes, no, yes, ... whatever is asked, by a copy of the weights, as a sampler elsewhere has one."""

    def __init__(self, model: Any, tokenizer: Any):
        self.model = copy.deepcopy(model)
        eos = tokenizer.eos_token_id
        texts = (tokenizer(word, add_special_tokens=False)["input_ids"] for word in ("yes", "no"))
        self.answers = [[*text, eos] for text in texts]
        EVENTS.append("open")

    @torch.no_grad()
    def sample(
        self, requests: Sequence[Request], *, samples: int = 1, temperature: float | None = None, keep: int = 0
    ) -> Rollout:
        EVENTS.append("sample")
        answers = [self.answers[k % 2] for k in range(samples)]
        logp = score(self.model, pack([Group(r.prompt, answers) for r in requests]), temperature or 1.0).logp.tolist()
        found = [Completion(answers[i % samples], row[: len(answers[i % samples])], True) for i, row in enumerate(logp)]
        return Rollout([found[i : i + samples] for i in range(0, len(found), samples)])

    def update(self, model: Any) -> None:
        EVENTS.append("update")
        self.model.load_state_dict(model.state_dict())

    def close(self) -> None:
        EVENTS.append("close")


def open_sampler(options: SamplerOptions, model: Any, tokenizer: Any, batch_rows: int) -> Fixed:
    assert options.backend == "fixed" and batch_rows > 0
    return Fixed(model, tokenizer)


def can_sample(model: Any) -> str | None:
    return None


@pytest.fixture(autouse=True)
def registered(monkeypatch) -> None:
    monkeypatch.setitem(registry.SAMPLERS, "fixed", __name__)
    EVENTS.clear()


def study(**rl: Any) -> Any:
    return tiny.study(rl={"sampler": {"backend": "fixed"}, "learning_rate": 1e-2, **rl})


def places(start: Path, out: Path) -> Places:
    return Places(start / "sft" / "model", start / "data", out, out / "checkpoints")


@pytest.mark.parametrize("inner_passes", [1, 2])
def test_training_samples_with_the_weights_of_every_step(start: Path, tmp_path: Path, inner_passes: int) -> None:
    options = study(max_steps=3, inner_passes=inner_passes)
    train(options, "grpo", 0, places(start, tmp_path))
    assert ["open", *["update", "sample"] * 3, "close"] == EVENTS
    steps = read_jsonl(tmp_path / "metrics.jsonl")
    # with those of the step before the gap would be of the size of what the step changed
    assert len(steps) == 3 and all(step["rollout_gap"] < 1e-3 for step in steps)
    assert all(step["reward/mean"] == 0.5 and step["grad_norm"] > 0 for step in steps)


def test_a_sampler_that_is_not_told_of_new_weights_shows(start: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Fixed, "update", lambda self, model: None)
    train(study(max_steps=3), "grpo", 0, places(start, tmp_path))
    first, *later = (step["rollout_gap"] for step in read_jsonl(tmp_path / "metrics.jsonl"))
    assert first < 1e-3 and all(gap > 1e-2 for gap in later)


def test_pairs_and_evaluation_go_through_it(start: Path, tmp_path: Path) -> None:
    preferences(study(), 0, start / "sft" / "model", start / "data", tmp_path / "pairs")
    assert EVENTS == ["open", "sample", "close"]
    pairs = read_jsonl(tmp_path / "pairs" / "pairs.jsonl")
    assert len(pairs) == 96 and all({pair["chosen"], pair["rejected"]} == {"yes", "no"} for pair in pairs)
    EVENTS.clear()
    evaluate(study(), start / "sft" / "model", start / "data", tmp_path / "evaluation")
    assert EVENTS == ["open", "sample", "close"]
    predictions = read_jsonl(tmp_path / "evaluation" / "predictions.jsonl")
    assert [p["output"] for p in predictions] == ["yes"] * 24 and all("choice" in p for p in predictions)


def test_it_is_closed_where_training_fails(start: Path, tmp_path: Path, monkeypatch) -> None:
    def fail(self: Fixed, *_: Any, **__: Any) -> Rollout:
        raise UserError("no answers today")

    monkeypatch.setattr(Fixed, "sample", fail)
    with pytest.raises(UserError, match="no answers today"):
        train(study(), "grpo", 0, places(start, tmp_path))
    assert EVENTS[-1] == "close"


def test_an_unknown_sampler_is_one_line_that_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"rl\.sampler\.backend: unknown sampler 'bulit-in'; did you mean 'built-in'"):
        tiny.study(rl={"sampler": {"backend": "bulit-in"}})
    with pytest.raises(
        UserError, match=r"methods\.grpo\.sampler\.backend: unknown sampler 'fix'; did you mean 'fixed'"
    ):
        tiny.study(methods={"grpo": {"sampler": {"backend": "fix"}}})


def test_the_code_of_the_sampler_is_that_of_the_stages_that_sample() -> None:
    built_in = "hargo/rollout/built_in.py"
    for stage in ("preferences", "train", "evaluate", "external"):
        assert built_in in stage_code(tiny.study(), stage)
        code = stage_code(study(), stage)
        assert built_in not in code and "test_sampler.py" in code
    assert built_in not in stage_code(tiny.study(), "data")
    one = tiny.study(methods={"grpo": {"sampler": {"backend": "fixed"}}, "hargo": {}, "dpo": {}})
    found = {method: built_in in stage_code(one, "train", method) for method in one.methods}
    assert found == {"grpo": False, "hargo": True, "dpo": True}
