"""Losses: golden values, signs, denominators, and the properties that define HARGO."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hargo.config import METHODS
from hargo.config.options import DrGRPOOptions, HargoOptions, PolicyOptions
from hargo.methods import dr_grpo, grpo, hargo, load, sft
from hargo.methods.base import (
    Signals,
    Tokens,
    clipped_surrogate,
    group_advantages,
    kl_k3,
    uniform_weights,
)


def signals(rewards, confidence=None, valid=None):
    rewards = torch.as_tensor(rewards, dtype=torch.float32)
    valid = torch.ones_like(rewards, dtype=torch.bool) if valid is None else torch.as_tensor(valid)
    confidence = torch.zeros_like(rewards) if confidence is None else torch.as_tensor(confidence, dtype=torch.float32)
    return Signals(rewards, valid, confidence)


def tokens(lengths, groups=1, advantages=None, weights=None, seed=0, width=None, requires_grad=True):
    """Random log-probabilities for responses of these lengths; old = current, reference nearby."""
    generator = torch.Generator().manual_seed(seed)
    width = width or max(lengths)
    mask = torch.arange(width)[None] < torch.tensor(lengths)[:, None]
    shape, extra = (len(lengths), max(lengths)), width - max(lengths)
    values = -torch.rand(shape, generator=generator) * 3
    below = values - 0.3 * torch.rand(shape, generator=generator)
    # padding columns hold junk that no loss may look at
    logp = torch.nn.functional.pad(values, (0, extra), value=-9.0).requires_grad_(requires_grad)
    reference = torch.nn.functional.pad(below, (0, extra), value=-2.0)
    return Tokens(
        logp=logp,
        mask=mask,
        groups=groups,
        total_tokens=sum(lengths),
        old_logp=logp.detach().clone(),
        ref_logp=reference,
        advantages=None if advantages is None else torch.as_tensor(advantages, dtype=torch.float32),
        weights=None if weights is None else torch.as_tensor(weights, dtype=torch.float32),
    )


def test_advantages_golden():
    got = group_advantages(torch.tensor([[1.0, 0, 0, 0]]), torch.ones(1, 4, dtype=torch.bool), 1e-4)
    assert got[0].tolist() == pytest.approx([1.4997, -0.4999, -0.4999, -0.4999], abs=1e-4)
    got = dr_grpo.Method(DrGRPOOptions()).shares(signals([[1, 0, 0, 0]])).advantages
    assert got[0].tolist() == pytest.approx([0.75, -0.25, -0.25, -0.25])


def test_k3_golden_and_never_negative():
    assert float(kl_k3(torch.tensor(-1.0), torch.tensor(-1.5))) == pytest.approx(0.106531, abs=1e-6)
    assert float(kl_k3(torch.tensor(-1.0), torch.tensor(-0.5))) == pytest.approx(0.148721, abs=1e-6)
    gaps = torch.cat([torch.linspace(-30, 30, 601), torch.logspace(-7, -2, 501), -torch.logspace(-7, -2, 501)])
    values = kl_k3(torch.zeros_like(gaps), gaps)
    assert (values >= 0).all()
    small = gaps.abs() < 1e-2
    torch.testing.assert_close(values[small], gaps[small] ** 2 / 2, rtol=2e-2, atol=2e-12)
    assert (values[gaps.abs() > 1e-3] > 0).all() and kl_k3(torch.zeros(1), torch.zeros(1)) == 0


@pytest.mark.parametrize("gap", [100.0, -100.0])
def test_k3_is_finite_and_pulls_back_at_a_gap_of_100(gap):
    logp = torch.zeros(1, requires_grad=True)
    kl_k3(logp, torch.tensor([gap])).sum().backward()
    assert torch.isfinite(logp.grad).all()
    # descending the loss moves logp towards the reference
    assert math.copysign(1, -float(logp.grad)) == math.copysign(1, gap)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"), [(1.5, 1, -1.2), (1.5, -1, 1.5), (0.5, 1, -0.5), (0.5, -1, 0.8)]
)
def test_clip_golden(ratio, advantage, loss):
    got, _ = clipped_surrogate(torch.tensor([[ratio]]).log(), torch.zeros(1, 1), torch.tensor([float(advantage)]), 0.2)
    assert float(got) == pytest.approx(loss)


def test_reductions_golden():
    """Two sequences, 2 tokens of loss 1 and 4 tokens of loss 2: sequence mean 1.5, token mean 1.66667, Dr.GRPO .625."""
    mask = torch.tensor([[True, True, False, False], [True] * 4])
    shape = (2, 4)
    zero = torch.zeros(shape)
    # at ratio 1 the surrogate is minus the advantage
    made = dict(mask=mask, groups=1, total_tokens=6, old_logp=zero, ref_logp=zero)
    advantages, half = torch.tensor([-1.0, -2.0]), torch.tensor([0.5, 0.5])
    got, _ = grpo.Method(PolicyOptions()).loss(Tokens(logp=zero, advantages=advantages, weights=half, **made))
    assert float(got) == pytest.approx(1.5)
    got, _ = dr_grpo.Method(DrGRPOOptions(length=8)).loss(
        Tokens(logp=zero, advantages=advantages, weights=half, **made)
    )
    assert float(got) == pytest.approx(0.625)
    got, _ = sft.Method().loss(Tokens(logp=torch.tensor([[-1.0] * 4, [-2.0] * 4]), mask=mask, groups=2, total_tokens=6))
    assert float(got) == pytest.approx(1.66667, abs=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_on_policy_value_and_gradient(name):
    """First pass: the surrogate's value is minus the weighted advantage, the gradient is not zero."""
    method = load(name, METHODS[name].options(**METHODS[name].preset, beta=0.0))
    shares = method.shares(signals([[1.0, 0.0, 0.5, 0.2]], [[-1.0, -0.2, -0.6, -2.0]]))
    part = tokens([3, 1, 2, 4], advantages=shares.advantages[0], weights=shares.weights[0])
    loss, sums = method.loss(part)
    loss.backward()
    assert part.logp.grad[part.mask].abs().min() > 0
    assert float(sums["ratio"]) == part.total_tokens
    if name == "grpo":
        assert float(loss.detach()) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_padding_and_splits_change_nothing(name):
    """Loss and gradient of the whole batch = sums over any split into groups = with padding columns added."""
    method = load(name, METHODS[name].options(**METHODS[name].preset))
    shares = method.shares(signals([[1.0, 0.0], [0.2, 0.9], [0.0, 0.3]], [[-1.0, -2], [-0.5, -0.1], [-3, -1]]))
    lengths = [3, 1, 5, 2, 4, 4]
    flat = dict(advantages=shares.advantages.flatten(), weights=shares.weights.flatten())
    whole = tokens(lengths, groups=3, **flat)
    loss, _ = method.loss(whole)
    loss.backward()

    padded = tokens(lengths, groups=3, width=11, **flat)
    wide, _ = method.loss(padded)
    wide.backward()
    assert float(wide.detach()) == pytest.approx(float(loss.detach()), rel=1e-6)
    torch.testing.assert_close(padded.logp.grad[:, :5], whole.logp.grad)
    assert (padded.logp.grad[:, 5:] == 0).all()

    leaf = whole.logp.detach().clone().requires_grad_()
    total = 0.0
    for rows in ([0, 1], [2, 3, 4, 5]):
        part = Tokens(
            logp=leaf[rows],
            mask=whole.mask[rows],
            groups=3,
            total_tokens=whole.total_tokens,
            old_logp=whole.old_logp[rows],
            ref_logp=whole.ref_logp[rows],
            advantages=flat["advantages"][rows],
            weights=flat["weights"][rows],
        )
        piece, _ = method.loss(part)
        piece.backward()
        total += float(piece.detach())
    assert total == pytest.approx(float(loss.detach()), rel=1e-6, abs=1e-9)
    torch.testing.assert_close(leaf.grad, whole.logp.grad)


@pytest.mark.parametrize("name", METHODS)
def test_kl_is_minimised(name):
    """With no advantage the loss is beta KL: positive, and its gradient leads towards the reference."""
    method = load(name, METHODS[name].options(**METHODS[name].preset, beta=0.5))
    shares = method.shares(signals([[0.3, 0.3, 0.3, 0.3]]))
    assert (shares.advantages == 0).all()
    part = tokens([2, 3, 1, 2], advantages=shares.advantages[0], weights=shares.weights[0])
    loss, sums = method.loss(part)
    loss.backward()
    assert float(loss.detach()) > 0 and float(sums["kl"]) > 0
    # the reference is below the policy everywhere, so descending must lower logp
    assert (part.logp.grad[part.mask] > 0).all()


@given(value=st.floats(-5, 5, width=32), size=st.integers(2, 8))
def test_equal_rewards_give_exactly_zero_whatever_the_rounding(value, size):
    rewards = torch.full((1, size), value)
    for eps in (1e-4, 0.0, None):
        got = group_advantages(rewards, torch.ones(1, size, dtype=torch.bool), eps)
        assert (got == 0).all()


def test_unusable_reward_is_left_out_and_an_empty_group_gets_zero():
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    valid = torch.tensor([[True, True, True, False], [False] * 4])
    for method in (grpo.Method(PolicyOptions()), hargo.Method(HargoOptions())):
        shares = method.shares(signals(rewards, valid=valid))
        assert torch.isfinite(shares.advantages).all() and torch.isfinite(shares.weights).all()
        assert shares.weights[0, 3] == 0 and shares.advantages[0, 3] == 0
        assert float(shares.weights[0].sum()) == pytest.approx(1.0)
        assert (shares.advantages[1] == 0).all() and (shares.weights[1] == 0).all()
    alone = group_advantages(rewards[:1, :3], valid[:1, :3], 1e-4)
    torch.testing.assert_close(group_advantages(rewards, valid, 1e-4)[0, :3], alone[0])


rewards_of_a_group = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.7, 1.0]), min_size=2, max_size=6)


@given(group=rewards_of_a_group, seed=st.integers(0, 99), alpha=st.floats(0, 2))
@settings(deadline=None)
def test_hargo_properties(group, seed, alpha):
    confidence = -3 * torch.rand(1, len(group), generator=torch.Generator().manual_seed(seed))
    options = HargoOptions(alpha=alpha)
    shares = hargo.Method(options).shares(signals([group], confidence))
    plain = group_advantages(torch.tensor([group]), torch.ones(1, len(group), dtype=torch.bool), options.eps)
    assert float(shares.weights.sum()) == pytest.approx(1.0, abs=1e-5)
    assert (shares.weights >= 0).all()
    assert (torch.sign(shares.advantages) == torch.sign(plain)).all()
    gain = shares.advantages[plain != 0] / plain[plain != 0]
    assert ((gain >= 1 - 1e-5) & (gain <= 1 + alpha + 1e-5)).all()
    if len(set(group)) == 1:
        exact = hargo.Method(HargoOptions(alpha=alpha, eps=0.0)).shares(signals([group], confidence))
        assert torch.equal(exact.weights, shares.weights) and (exact.advantages == 0).all()
        assert shares.weights[0].tolist() == pytest.approx([1 / len(group)] * len(group))

    order = torch.randperm(len(group), generator=torch.Generator().manual_seed(seed))
    permuted = hargo.Method(options).shares(signals(torch.tensor([group])[:, order], confidence[:, order]))
    torch.testing.assert_close(permuted.weights, shares.weights[:, order], rtol=1e-4, atol=1e-5)


@given(group=rewards_of_a_group, seed=st.integers(0, 99))
@settings(deadline=None)
def test_alpha_zero_is_b1_to_the_bit(group, seed):
    confidence = -3 * torch.rand(1, len(group), generator=torch.Generator().manual_seed(seed))
    zero = hargo.Method(HargoOptions(alpha=0.0)).shares(signals([group], confidence))
    b1 = load("b1", HargoOptions(weighting="d")).shares(signals([group], confidence))
    assert torch.equal(zero.weights, b1.weights) and torch.equal(zero.advantages, b1.advantages)


@given(group=rewards_of_a_group)
@settings(deadline=None)
def test_a_frozen_confidence_gives_the_weights_of_b1(group):
    """Equal confidences scale all advantages of a group alike, which cannot move the weights."""
    frozen = torch.full((1, len(group)), -1.5)
    full = hargo.Method(HargoOptions(eps=0.0)).shares(signals([group], frozen))
    b1 = hargo.Method(HargoOptions(weighting="d", eps=0.0)).shares(signals([group], frozen))
    torch.testing.assert_close(full.weights, b1.weights, rtol=1e-5, atol=1e-6)


def test_ablation_weights_by_hand():
    rewards, confidence = [[1.0, 0.0]], [[1.0, -1.0]]
    c = torch.sigmoid(torch.tensor([1.0, -1.0]))  # the baseline is the batch mean, 0
    a = 1 / math.sqrt(2)  # (1 - .5) / sample deviation
    by = {
        name: hargo.Method(HargoOptions(weighting=name, eps=0.0)).shares(signals(rewards, confidence))
        for name in ("full", "d", "c", "d+c", "d*c")
    }
    assert by["d"].weights[0].tolist() == pytest.approx([0.5, 0.5])
    assert by["c"].weights[0].tolist() == pytest.approx((c / c.sum()).tolist())
    modulated = a * (1 + 0.3 * c)
    assert by["full"].advantages[0].tolist() == pytest.approx([float(modulated[0]), -float(modulated[1])], rel=1e-5)
    assert by["full"].weights[0].tolist() == pytest.approx((modulated / modulated.sum()).tolist(), rel=1e-5)
    assert by["d+c"].weights[0].tolist() == pytest.approx(((1 + 0.3 * c) / (1 + 0.3 * c).sum()).tolist(), rel=1e-5)
    assert by["d*c"].weights[0].tolist() == pytest.approx((c / c.sum()).tolist(), rel=1e-5)


def test_baseline_is_an_average_that_includes_the_batch_and_survives_a_checkpoint():
    method = hargo.Method(HargoOptions(rho=0.9))
    first = method.shares(signals([[1.0, 0.0]], [[-2.0, -4.0]]))
    assert method.baseline == pytest.approx(-3.0)
    torch.testing.assert_close(first.logged["confidence"], torch.sigmoid(torch.tensor([[1.0, -1.0]])))
    method.shares(signals([[1.0, 0.0]], [[-1.0, -1.0]]))
    assert method.baseline == pytest.approx(0.9 * -3 + 0.1 * -1)
    restored = hargo.Method(HargoOptions(rho=0.9))
    restored.load_state_dict(method.state_dict())
    more = signals([[0.0, 1.0]], [[-1.0, -5.0]])
    assert torch.equal(restored.shares(more).weights, method.shares(more).weights)


def test_a_constant_shift_of_the_reference_changes_nothing_once_the_baseline_settles():
    plain, shifted = hargo.Method(HargoOptions()), hargo.Method(HargoOptions())
    batch = [[-1.0, -2.0, -0.5, -3.0]]
    for _ in range(3):
        a = plain.shares(signals([[1.0, 0, 0.5, 0]], batch))
        b = shifted.shares(signals([[1.0, 0, 0.5, 0]], (torch.tensor(batch) - 7.0).tolist()))
    torch.testing.assert_close(a.weights, b.weights, rtol=1e-4, atol=1e-6)


def test_old_log_probabilities_matter_on_a_second_pass():
    method = grpo.Method(PolicyOptions(beta=0.0))
    part = tokens([2, 2], advantages=[1.0, -1.0], weights=[0.5, 0.5])
    moved = Tokens(**{**part.__dict__, "logp": part.logp.detach() + 0.1})
    _, sums = method.loss(moved)
    assert float(sums["ratio"]) / 4 == pytest.approx(math.exp(0.1), rel=1e-5)


def test_uniform_weights_skip_what_is_left_out():
    assert uniform_weights(torch.tensor([[True, True, False, True]]))[0].tolist() == pytest.approx(
        [1 / 3, 1 / 3, 0, 1 / 3]
    )
