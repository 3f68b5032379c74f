"""A response without a usable reward: the batch learns as it would without that response, by every method."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from batches import POLICY, rows_of, signals, tokens
from torch import Tensor

from hargo import tasks
from hargo.config import METHODS
from hargo.config.methods import HargoOptions
from hargo.methods import hargo, load
from hargo.models.encode import Example
from hargo.training.rewards import reward


def learned(
    name: str, rewards: Tensor, valid: Tensor, lengths: Tensor, kept: list[int] | None = None
) -> tuple[Tensor, Tensor]:
    """Loss and gradient by log-probabilities, [R, T], of a batch [P, G] off policy.

    kept: of these responses alone, which are then a batch of their own, as `rewards` [P, G] says
    """
    spec = METHODS[name]
    method = load(name, spec.options(**{**spec.preset, "beta": 0.3, "clip": 0.2}))
    whole = tokens(lengths.flatten().tolist(), seed=5)
    generator = torch.Generator().manual_seed(7)
    confidence = -3 * torch.rand(whole.mask.shape[0], generator=generator)
    values = torch.rand(whole.mask.shape, generator=generator).masked_fill(~whole.mask, 0.0)
    part = dataclasses.replace(whole, old_logp=whole.logp.detach() + 0.05, values=values)
    kept = list(range(lengths.numel())) if kept is None else kept
    part = rows_of(part, part.logp.detach(), kept)
    shape = (*rewards.shape, part.mask.shape[-1])
    given = signals(rewards, confidence[kept].view_as(rewards), valid, lengths.flatten()[kept])
    given = dataclasses.replace(given, values=part.values.view(shape), mask=part.mask.view(shape))
    shares = method.shares(given)
    part = dataclasses.replace(
        part,
        logp=part.logp.requires_grad_(),
        groups=len(rewards),
        total_tokens=int(part.mask.sum()),
        advantages=shares.advantages.flatten(0, 1),
        weights=shares.weights.flatten(),
        values=part.values + 0.1,
        old_values=part.values,
        returns=None if shares.returns is None else shares.returns.flatten(0, 1),
    )
    loss, _ = method.loss(part)
    loss.backward()
    return loss.detach(), part.logp.grad


@pytest.mark.parametrize("name", POLICY)
def test_the_others_of_a_group_learn_as_without_it(name):
    """Lengths 3, 2, 4 and 6, the last unusable: its tokens count in no denominator."""
    lengths, rewards = torch.tensor([[3, 2, 4, 6]]), torch.tensor([[1.0, 0.0, 0.5, 0.0]])
    valid = torch.tensor([[True, True, True, False]])
    loss, gradient = learned(name, rewards, valid, lengths)
    alone, wanted = learned(name, rewards[:, :3], valid[:, :3], lengths, kept=[0, 1, 2])
    assert (gradient[3] == 0).all() and wanted.abs().max() > 1e-3
    torch.testing.assert_close(gradient[:3], wanted)
    torch.testing.assert_close(loss, alone)


@pytest.mark.parametrize("name", POLICY)
def test_a_group_without_any_reward_is_no_group(name):
    lengths = torch.tensor([[3, 2], [6, 5], [4, 1]])
    rewards = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.2, 0.9]])
    valid = torch.tensor([[True, True], [False, False], [True, True]])
    loss, gradient = learned(name, rewards, valid, lengths)
    alone, wanted = learned(name, rewards[[0, 2]], valid[[0, 2]], lengths, kept=[0, 1, 4, 5])
    assert (gradient[[2, 3]] == 0).all()
    torch.testing.assert_close(gradient[[0, 1, 4, 5]], wanted)
    torch.testing.assert_close(loss, alone)


@pytest.mark.parametrize("name", POLICY)
def test_a_batch_without_any_reward_teaches_nothing_and_is_no_nan(name):
    lengths, none = torch.tensor([[3, 2], [6, 5]]), torch.zeros(2, 2, dtype=torch.bool)
    loss, gradient = learned(name, torch.zeros(2, 2), none, lengths)
    assert loss == 0 and (gradient == 0).all()


@pytest.mark.parametrize("name", POLICY)
def test_shares_sum_to_one_whatever_is_left_out(name):
    spec = METHODS[name]
    valid = torch.tensor([[True, False, True], [False] * 3, [True, False, False]])
    lengths = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    given = signals(torch.rand(3, 3, generator=torch.Generator().manual_seed(0)), valid=valid, lengths=lengths)
    mask = torch.arange(9) < lengths.unsqueeze(-1)
    given = dataclasses.replace(given, values=torch.zeros(mask.shape), mask=mask)
    shares = load(name, spec.options(**spec.preset)).shares(given)
    assert float(shares.weights.sum()) == pytest.approx(1.0)
    assert (shares.weights[~valid] == 0).all() and (shares.weights[valid] >= 0).all()


def test_the_running_baseline_is_that_of_the_usable_responses():
    method = hargo.Method(HargoOptions(rho=0.9))
    valid = torch.tensor([[True, True, False], [False] * 3])
    method.shares(signals(torch.rand(2, 3), [[-1.0, -2.0, -90.0], [-90.0] * 3], valid))
    assert method.baseline == pytest.approx(-1.5)
    method.shares(signals(torch.rand(2, 3), torch.full((2, 3), -9.0), torch.zeros(2, 3, dtype=torch.bool)))
    assert method.baseline == pytest.approx(-1.5)  # nothing to learn from, and nothing forgotten


def test_rewards_that_are_no_finite_numbers_are_unusable(monkeypatch):
    task = tasks.load("race_c")
    given = [None, float("nan"), float("inf"), -float("inf"), 1e300, -2.5, True, 0]
    odd = type(task)(**{**task.__dict__, "reward": lambda outputs, references: given})
    monkeypatch.setattr("hargo.tasks.race_c.TASK", odd)

    class Row:
        id, task, answer = "race_c/0", "race_c", "yes"

    rewards, valid = reward([Example(Row, [1], [2])] * 2, ["no"] * 8, 4)  # type: ignore[arg-type]
    assert valid.tolist() == [[False] * 4, [False, True, True, True]]  # 1e300 is beyond float32
    assert rewards.tolist() == [[0.0] * 4, [0.0, -2.5, 1.0, 0.0]]
    found = tasks.rewards(["race_c"] * 8, ["x"] * 8, ["yes"] * 8)
    assert [value is not None for value in found] == [False] * 4 + [True] * 4
