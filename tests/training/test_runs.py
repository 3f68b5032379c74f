"""What a run may be: any trainer, any start, and longer than it was first planned."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from noise import NoiseOptions

from hargo.config import METHODS
from hargo.config.registry import TRAINERS, MethodSpec, TrainerSpec
from hargo.errors import UserError
from hargo.io import read_json, read_jsonl
from hargo.layout import kept_model
from hargo.models.encode import prompt_text
from hargo.models.load import load_model, load_tokenizer
from hargo.training import checkpoint, loop
from hargo.training.job import Job, Places, train
from hargo.training.trainers import demonstrations
from hargo.training.update import OneLoss

SFT = {"schedule": "constant", "warmup": 0.0, "batch_size": 8, "epochs": 9, "checkpoint_every": 100}


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def sft(start: Path, out: Path, **options: Any) -> Path:
    """The model of an SFT run with these options; runs in one `out` share their checkpoints."""
    study = tiny.study(sft={**SFT, **options})
    train(study, "sft", 0, Places(start / "base", start / "data", out, out / "checkpoints"))
    return out / "model"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps taken from now on."""
    taken: list[int] = []
    real = OneLoss.apply
    monkeypatch.setattr(
        OneLoss, "apply", lambda self, batches, step, rate: (taken.append(step), real(self, batches, step, rate))[1]
    )
    return taken


@pytest.fixture
def noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer and a method from outside, each one entry."""
    monkeypatch.setitem(TRAINERS, "noise", TrainerSpec("noise", "rl", "nothing"))
    monkeypatch.setitem(METHODS, "noise", MethodSpec("noise", "noise", NoiseOptions, trainer="noise"))


def test_a_trainer_without_gradient_is_a_run_like_any_other(start, tmp_path, noise, monkeypatch) -> None:
    study = tiny.study(methods={"noise": {"members": 2}, "grpo": {"start": "noise", "max_steps": 1}})
    begin = start / "sft" / "model"
    places = Places(begin, start / "data", tmp_path / "noise", tmp_path / "checkpoints")
    train(study, "noise", 0, places)
    made = weights(tmp_path / "noise" / "model")
    assert made != weights(begin) and len(read_jsonl(tmp_path / "noise" / "metrics.jsonl")) == 2
    record = read_json(tmp_path / "noise" / "run.json")
    assert record["method"] == "noise" and record["options"]["members"] == 2
    train(study, "grpo", 0, Places(tmp_path / "noise" / "model", start / "data", tmp_path / "rl", tmp_path / "more"))
    assert (tmp_path / "rl" / "model").is_dir()
    # run again, its outputs are those that were kept
    monkeypatch.setattr(Job, "_finish", lambda *_: pytest.fail("trained again"))
    (tmp_path / "noise" / "run.json").unlink()
    train(study, "noise", 0, places)
    assert weights(tmp_path / "noise" / "model") == made and (tmp_path / "noise" / "run.json").is_file()


def test_a_run_keeps_what_it_was_at_the_tokens_where_others_start(start, tmp_path) -> None:
    whole = sft(start, tmp_path / "whole", max_steps=6)
    tokens = [step["tokens"] for step in read_jsonl(tmp_path / "whole" / "metrics.jsonl")]
    asked = sum(tokens[:2]) + 1  # within the third step
    study = tiny.study(sft={**SFT, "max_steps": 6}, methods={"grpo": {"start": f"sft@{asked}", "max_steps": 1}})
    out = tmp_path / "out"
    train(study, "sft", 0, Places(start / "base", start / "data", out, out / "checkpoints"))
    kept = kept_model(out / "kept", asked)
    short = sft(start, tmp_path / "short", max_steps=3)
    assert weights(kept) == weights(short) != weights(whole) == weights(out / "model")
    load_model(kept, torch.device("cpu"))
    train(study, "grpo", 0, Places(kept, start / "data", tmp_path / "rl", tmp_path / "rl" / "checkpoints"))
    beyond = tiny.study(sft={**SFT, "max_steps": 6}, methods={"grpo": {"start": f"sft@{10 * sum(tokens)}"}})
    with pytest.raises(UserError, match=f"trained on {sum(tokens)} tokens, but another run starts from it at"):
        train(beyond, "sft", 0, Places(start / "base", start / "data", out, out / "checkpoints"))


def test_a_start_asked_for_later_is_made_again(start, tmp_path, monkeypatch) -> None:
    """Finished without it, a run trains again up to there and ends in the same weights."""
    before = weights(sft(start, tmp_path, max_steps=4, keep_state=True))
    study = tiny.study(sft={**SFT, "max_steps": 4, "keep_state": True}, methods={"grpo": {"start": "sft@1"}})
    train(study, "sft", 0, Places(start / "base", start / "data", tmp_path, tmp_path / "checkpoints"))
    assert weights(tmp_path / "model") == before and kept_model(tmp_path / "kept", 1).is_dir()


def test_cut_at_half_its_budget_and_continued_it_ends_as_the_long_run(start, tmp_path, monkeypatch) -> None:
    whole = weights(sft(start, tmp_path / "whole", max_steps=8))
    half = weights(sft(start, tmp_path / "cut", max_steps=4, keep_state=True))
    taken = counted(monkeypatch)
    assert weights(sft(start, tmp_path / "cut", max_steps=8, keep_state=True)) == whole != half
    assert taken == [4, 5, 6, 7], "the first half is not trained again"
    assert len(read_jsonl(tmp_path / "cut" / "metrics.jsonl")) == 8


def test_a_schedule_is_laid_out_over_the_steps_that_it_names(start, tmp_path, monkeypatch) -> None:
    falling = {"schedule": "cosine", "warmup": 0.25}
    whole = weights(sft(start, tmp_path / "whole", max_steps=8, **falling))
    sft(start, tmp_path / "cut", max_steps=4, keep_state=True, schedule_steps=8, **falling)
    taken = counted(monkeypatch)
    assert weights(sft(start, tmp_path / "cut", max_steps=8, schedule_steps=8, **falling)) == whole
    assert taken == [4, 5, 6, 7]


def test_a_shorter_run_after_a_longer_one_is_not_fooled_by_it(start, tmp_path) -> None:
    short = weights(sft(start, tmp_path / "short", max_steps=3))
    sft(start, tmp_path / "both", max_steps=6, keep_state=True)
    assert weights(sft(start, tmp_path / "both", max_steps=3)) == short
    assert len(read_jsonl(tmp_path / "both" / "metrics.jsonl")) == 3


def test_a_rule_that_sees_the_records_ends_a_run(start, tmp_path, monkeypatch, caplog) -> None:
    seen: list[int] = []

    def rule(record: dict[str, Any]) -> str | None:
        seen.append(record["step"])
        return "the rule says so" if record["step"] == 5 else None

    real = loop.Plan
    monkeypatch.setattr("hargo.training.loop.Plan", lambda *a: real(*a[:4], (rule,)))
    with caplog.at_level("INFO", "hargo"):
        short = weights(sft(start, tmp_path / "ruled", max_steps=9, checkpoint_every=2))
    assert seen == [1, 2, 3, 4, 5] and "ended early, the rule says so" in caplog.text
    monkeypatch.setattr("hargo.training.loop.Plan", real)
    assert short == weights(sft(start, tmp_path / "short", max_steps=5))


def test_a_rule_sees_the_steps_before_an_interruption_again(start, tmp_path, monkeypatch) -> None:
    seen: list[int] = []
    real, save = loop.Plan, checkpoint.save

    def rule(record: dict[str, Any]) -> str | None:
        seen.append(record["step"])
        return None

    def stopped(*arguments: Any) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr("hargo.training.loop.Plan", lambda *a: real(*a[:4], (rule,)))
    monkeypatch.setattr(checkpoint, "save", stopped)
    with pytest.raises(KeyboardInterrupt):
        sft(start, tmp_path, max_steps=4, checkpoint_every=2)
    monkeypatch.setattr(checkpoint, "save", save)
    sft(start, tmp_path, max_steps=4, checkpoint_every=2)
    assert seen == [1, 2, 1, 2, 3, 4]


def test_every_trainer_of_the_registry_can_be_found() -> None:
    assert set(TRAINERS) == {spec.trainer for spec in METHODS.values()}
    assert demonstrations.train.__module__ == TRAINERS["demonstrations"].module


def test_a_model_s_card_says_what_made_it_and_loads_it(start, tmp_path) -> None:
    model = sft(start, tmp_path, max_steps=2)
    text = (model / "README.md").read_text(encoding="utf-8")
    assert "run `sft` (SFT) of the study `tiny`, seed 0, from the run `pretrain`" in text
    [snippet] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", snippet], cwd=model, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    study, tokenizer = tiny.study(), load_tokenizer(model)
    before = re.search(r"^prompt = (.*)  # as in training$", snippet, re.MULTILINE)
    assert before and eval(before[1], {"question": "Why?"}) == prompt_text(tokenizer, "Why?", study.model)
