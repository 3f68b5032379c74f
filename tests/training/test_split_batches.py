"""A batch in parts, as several processes would compute it: with the whole's totals, losses and gradients add up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from hargo import tasks
from hargo.config import METHODS
from hargo.data.records import load_rows
from hargo.engine.pack import Group, rows_of, score
from hargo.methods import load
from hargo.models.adapt import add_critic
from hargo.models.encode import encode
from hargo.models.load import load_model, load_tokenizer
from hargo.rollout import open_sampler
from hargo.training.batch import Batch
from hargo.training.trainers.demonstrations import Demonstrations
from hargo.training.trainers.pairs import Preferences
from hargo.training.trainers.rollouts import Rollouts
from hargo.training.update import OneLoss

#: figures of a step that are no sums over its responses
NO_SUMS = {"grad_norm", "ratio_max", "rollout_gap"}


def prepared(start: Path, name: str) -> tuple[Any, Any, Any, Any]:
    """Policy, reference, options and stage of a method, the reference far enough for a divergence."""
    policy, reference = (load_model(start / part, torch.device("cpu")) for part in ("sft/model", "base"))
    tokenizer = load_tokenizer(start / "sft" / "model")
    examples = encode(tokenizer, load_rows(start / "data" / "train.jsonl"))
    study = tiny.study(methods={} if name in ("pretrain", "sft") else {name: {}}, rl={"temperature": 1.0})
    options = study.method(name).model_copy(update={"max_grad_norm": 1e9})
    method = load(name, options)
    stage: Any
    if METHODS[name].trainer in ("texts", "demonstrations"):
        groups = [Group(e.prompt, [e.answer * (1 + i % 3)]) for i, e in enumerate(examples)]
        stage = Demonstrations(groups, options, method, 0, policy)
    elif METHODS[name].trainer == "pairs":
        groups = [Group(e.prompt, [e.answer, [5, *e.answer * (1 + i % 2)]]) for i, e in enumerate(examples)]
        stage = Preferences(policy, reference, groups, options, method, 0)
    else:
        if method.critic:
            add_critic(policy)
        sampler = open_sampler(options.sampler, policy, tokenizer)
        stage = Rollouts(policy, reference, tokenizer, examples, options, method, 0, sampler)
    return policy, reference, options, stage


def part(whole: Batch, numbers: list[int], policy: Any, reference: Any, temperature: float) -> Batch:
    """The groups of these numbers, with what the whole batch makes of them and its totals."""
    rows = rows_of(whole.groups)
    mine = torch.tensor([row for i in numbers for row in rows[i]])
    found = Batch.of([whole.groups[i] for i in numbers], 1024, policy)
    assert found.total_groups == len(numbers) < whole.total_groups and found.total_tokens < whole.total_tokens
    tensors = {
        name: None if (value := getattr(whole, name)) is None else value[mine]
        for name in ("advantages", "weights", "old_values", "returns")
    }
    ref_logp = None
    if whole.ref_logp is not None:
        with torch.no_grad():
            ref_logp = [score(reference, packed, temperature).logp for packed in found.packed]
    totals = {"total_groups": whole.total_groups, "total_tokens": whole.total_tokens}
    return replace(found, **tensors, **totals, ref_logp=ref_logp, reference_point=whole.reference_point)


def outcome(policy: Any, stage: Any, options: Any, batch: Batch) -> tuple[dict[str, float], torch.Tensor]:
    stage.batch = lambda step: batch
    record = OneLoss(policy, options, torch.optim.SGD(policy.parameters(), lr=0.0)).apply(stage, 0, 0.0)
    figures = {key: value for key, value in record.items() if isinstance(value, float | int) and key not in NO_SUMS}
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in policy.parameters()]
    return figures, torch.cat([gradient.flatten() for gradient in gradients])


@pytest.mark.parametrize("name", METHODS)
def test_losses_and_gradients_of_parts_add_up(start: Path, monkeypatch, name: str) -> None:
    task = tasks.load("race_c")
    by_length = {"reward": lambda outputs, _: [float(len(text) % 2) for text in outputs]}
    monkeypatch.setattr("hargo.tasks.race_c.TASK", type(task)(**{**task.__dict__, **by_length}))
    policy, reference, options, stage = prepared(start, name)
    batch = stage.batch(0)
    count = len(batch.groups)
    assert batch.total_groups == count >= 4
    # parts of unequal size, and no neighbours: means of their own would not add up
    halves = [list(range(0, count, 3)), [i for i in range(count) if i % 3]]
    parts = [part(batch, numbers, policy, reference, stage.temperature) for numbers in halves]
    whole, gradient = outcome(policy, stage, options, replace(batch, metrics={}))
    assert gradient.norm() > 0
    found = [outcome(policy, stage, options, half) for half in parts]
    for key, value in whole.items():
        assert sum(figures[key] for figures, _ in found) == pytest.approx(value, rel=1e-3, abs=1e-5), key
    assert (sum(its for _, its in found) - gradient).norm() < 1e-3 * gradient.norm()
