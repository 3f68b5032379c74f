"""Losses: golden values, signs, denominators, and the properties that define HARGO."""

from __future__ import annotations

import dataclasses
import math
import socket

import pytest
import torch
from batches import POLICY, prepared, rows_of, signals, tokens
from hypothesis import given, settings
from hypothesis import strategies as st

from hargo.config import METHODS
from hargo.config.methods import DrGRPOOptions, HargoOptions, KTOOptions, SimPOOptions
from hargo.config.options import PolicyOptions, PreferenceOptions
from hargo.methods import dpo, dr_grpo, grpo, hargo, kto, load, ppo, sft, simpo
from hargo.methods.base import (
    Tokens,
    clipped_surrogate,
    group_advantages,
    kl_k3,
    uniform_weights,
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
    for name in ("dapo", "reinforce_pp"):
        method = load(name, METHODS[name].options(beta=0.0))
        shares = method.shares(signals([[1.0, 0.0]], lengths=[[2, 4]]))
        got, _ = method.loss(Tokens(logp=zero, advantages=advantages, weights=shares.weights[0], **made))
        assert float(got) == pytest.approx(1.66667, abs=1e-5)
    got, _ = sft.Method().loss(Tokens(logp=torch.tensor([[-1.0] * 4, [-2.0] * 4]), mask=mask, groups=2, total_tokens=6))
    assert float(got) == pytest.approx(1.66667, abs=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_every_loss_has_a_gradient_on_every_real_token_and_on_no_other(name):
    method, part = prepared(name, width=7)
    loss, figures = method.loss(part)
    loss.backward()
    assert torch.isfinite(loss) and part.logp.grad[part.mask].abs().min() > 0
    assert (part.logp.grad[~part.mask] == 0).all()
    if name in POLICY:
        assert float(figures["ratio"]) == pytest.approx(1.0) and float(figures["clip_share"]) == 0


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "rloo", "gspo"])
def test_on_policy_the_value_is_zero_and_the_gradient_is_not(name):
    method, part = prepared(name, beta=0.0)
    loss, _ = method.loss(part)
    loss.backward()
    same_length = name != "dr_grpo"  # sums over tokens do not cancel where lengths differ
    assert not same_length or float(loss.detach()) == pytest.approx(0.0, abs=1e-6)
    assert part.logp.grad.abs().max() > 1e-3


@pytest.mark.parametrize("name", METHODS)
def test_padding_and_splits_change_nothing(name):
    """Loss, figures and gradient of the whole batch = sums over its groups = with padding columns added."""
    method, whole = prepared(name)
    loss, figures = method.loss(whole)
    loss.backward()
    _, padded = prepared(name, width=11)
    wide, _ = method.loss(padded)
    wide.backward()
    assert float(wide.detach()) == pytest.approx(float(loss.detach()), rel=1e-5, abs=1e-6)
    torch.testing.assert_close(padded.logp.grad[:, :5], whole.logp.grad)
    assert (padded.logp.grad[:, 5:] == 0).all()

    leaf = whole.logp.detach().clone().requires_grad_()
    total, added = 0.0, dict.fromkeys(figures, 0.0)
    for rows in ([0, 1], [2, 3, 4, 5]):
        piece, found = method.loss(rows_of(whole, leaf, rows))
        piece.backward()
        total += float(piece.detach())
        added = {key: added[key] + float(value) for key, value in found.items()}
    assert total == pytest.approx(float(loss.detach()), rel=1e-5, abs=1e-6)
    assert added == pytest.approx({key: float(value) for key, value in figures.items()}, rel=1e-5, abs=1e-6)
    torch.testing.assert_close(leaf.grad, whole.logp.grad)


def _half(rank, port, folder, name):
    """One of two processes: its groups' loss and gradient, summed over both."""
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    method, whole = prepared(name)
    leaf = whole.logp.detach().clone().requires_grad_()
    loss, _ = method.loss(rows_of(whole, leaf, [0, 1] if rank else [2, 3, 4, 5]))
    loss.backward()
    both = [loss.detach(), leaf.grad]
    for value in both:
        torch.distributed.all_reduce(value)
    if rank == 0:
        torch.save(both, f"{folder}/{name}.pt")
    torch.distributed.destroy_process_group()


def _halves(rank, ports, folder):
    for name, port in zip(METHODS, ports, strict=True):
        _half(rank, port, folder, name)


def test_two_processes_are_one(tmp_path):
    """Each process has its groups and the denominators of all; the sum over processes is the whole batch's."""
    ports = []
    for _ in METHODS:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    torch.multiprocessing.spawn(_halves, (ports, str(tmp_path)), nprocs=2)
    for name in METHODS:
        method, whole = prepared(name)
        loss, _ = method.loss(whole)
        loss.backward()
        together, gradient = torch.load(tmp_path / f"{name}.pt", weights_only=True)
        assert float(together) == pytest.approx(float(loss.detach()), rel=1e-5, abs=1e-6), name
        torch.testing.assert_close(gradient, whole.logp.grad)


@pytest.mark.parametrize("name", [name for name in POLICY if name != "ppo"])
def test_kl_is_minimised(name):
    """With no advantage the loss is beta KL: positive, and its gradient leads towards the reference."""
    method, part = prepared(name, rewards=[[0.3, 0.3]] * 3, beta=0.5)
    assert (part.advantages == 0).all()
    loss, figures = method.loss(part)
    loss.backward()
    assert float(loss.detach()) > 0 and float(figures["kl"]) > 0
    # the reference is below the policy everywhere, so descending must lower logp
    assert (part.logp.grad[part.mask] > 0).all()


@pytest.mark.parametrize("name", ["dpo", "simpo", "kto"])
def test_pairs_raise_the_chosen_answer_and_lower_the_other(name):
    method, part = prepared(name)
    loss, figures = method.loss(part)
    loss.backward()
    chosen, rejected = part.logp.grad[0::2], part.logp.grad[1::2]
    assert (chosen[part.mask[0::2]] < 0).all() and (rejected[part.mask[1::2]] > 0).all()
    assert 0 <= float(figures["pair_accuracy"]) <= 1


def test_preference_losses_golden():
    """DPO: equal models ln 2 and rewards 0, beta .1 margin 2 .598139; SimPO 1.313262; KTO .5 per example."""
    logp = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]])
    equal = Tokens(logp, logp < 0, groups=1, total_tokens=4, ref_logp=logp)
    loss, figures = dpo.Method(PreferenceOptions()).loss(equal)
    assert float(loss) == pytest.approx(0.693147, abs=1e-6) and float(figures["pair_margin"]) == 0
    ahead = dataclasses.replace(equal, ref_logp=logp - torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert float(dpo.Method(PreferenceOptions()).loss(ahead)[0]) == pytest.approx(0.598139, abs=1e-6)
    same = Tokens(torch.tensor([[-1.0, -1.0], [-1.0, 0.0]]), torch.tensor([[True, True], [True, False]]), 1, 3)
    assert float(simpo.Method(SimPOOptions()).loss(same)[0]) == pytest.approx(1.313262, abs=1e-6)
    assert float(kto.Method(KTOOptions()).loss(equal)[0]) == pytest.approx(0.5)


def test_the_divergence_on_other_prompts_moves_the_reference_point_of_kto():
    logp = torch.tensor([[-1.0], [-2.0]])
    part = Tokens(logp, logp < 0, groups=1, total_tokens=2, ref_logp=logp, reference_point=5.0)
    got, _ = kto.Method(KTOOptions()).loss(part)
    z = 0.1 * 5.0
    assert float(got) == pytest.approx((1 - 1 / (1 + math.exp(z)) + 1 - 1 / (1 + math.exp(-z))) / 2, rel=1e-6)
    below = dataclasses.replace(part, reference_point=-5.0)
    assert float(kto.Method(KTOOptions()).loss(below)[0]) == pytest.approx(0.5)


def test_advantage_estimates_golden_and_blind_to_padding():
    mask = torch.tensor([[True, True, True, False, False]])
    values = torch.tensor([[0.5, 0.6, 0.7, 9.0, 9.0]])
    got = ppo.gae(torch.tensor([1.0]), values, mask, gamma=1.0, lam=0.95)
    assert got[0].tolist() == pytest.approx([0.46575, 0.385, 0.3, 0.0, 0.0])


def test_whitening_looks_at_real_tokens_only_and_one_token_is_no_nan():
    mask = torch.tensor([[True, True, False], [True, True, False]])
    values = torch.tensor([[1.0, 2.0, 100.0], [3.0, 4.0, -100.0]])
    got = ppo.whiten(values, mask)
    assert float(got[mask].mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(got[mask].std(unbiased=False)) == pytest.approx(1.0, abs=1e-5)
    assert (got[~mask] == 0).all()
    assert (ppo.whiten(values[:1, :1], mask[:1, :1]) == 0).all()


def test_ppo_learns_its_values():
    method, part = prepared("ppo")
    loss, _ = method.loss(part)
    loss.backward()
    error = (part.values.detach() - part.returns)[part.mask]
    assert (torch.sign(part.values.grad[part.mask]) == torch.sign(error)).all()
    assert (part.values.grad[~part.mask] == 0).all()


def test_rloo_leaves_each_response_out_of_its_own_baseline():
    rewards = torch.tensor([[1.0, 0.5, 0.0, 0.2]])
    valid = torch.tensor([[True, True, True, False]])
    got = load("rloo", PolicyOptions()).shares(signals(rewards, valid=valid)).advantages[0]
    assert got.tolist() == pytest.approx([1.0 - 0.25, 0.5 - 0.5, 0.0 - 0.75, 0.0])


@pytest.mark.parametrize("frozen", [0.1, 0.5, 0.9])
@given(group=st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.7, 1.0]), min_size=2, max_size=6))
@settings(deadline=None)
def test_a_frozen_confidence_is_b1_in_its_weights_to_the_bit(frozen, group):
    confidence = -torch.arange(len(group)).float().unsqueeze(0)
    control = load("frozen_c", HargoOptions(frozen=frozen)).shares(signals([group], confidence))
    b1 = load("b1", HargoOptions(weighting="d")).shares(signals([group], confidence))
    assert torch.equal(control.weights, b1.weights)
    torch.testing.assert_close(control.advantages, b1.advantages * (1 + 0.3 * frozen))


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


@pytest.mark.parametrize("name", ["gspo", "rloo"])
def test_the_clipped_share_in_the_log_is_that_of_the_ratio_that_is_clipped(name):
    """Two tokens that move apart leave the ratio of the whole response at 1; moved together they do not."""
    method, part = prepared(name, rewards=[[1.0, 0.0]], confidence=[[-1.0, -1.0]], lengths=[2, 2], clip=0.3)
    apart = dataclasses.replace(part, old_logp=part.logp.detach() + torch.tensor([[1.0, -1.0], [0.5, 0.5]]))
    _, figures = method.loss(apart)
    assert float(figures["clip_share"]) == pytest.approx(0.5)
    moved = math.exp(-0.5 if name == "gspo" else -1.0)
    assert float(figures["ratio"]) == pytest.approx((1 + moved) / 2, rel=1e-5)


def test_old_log_probabilities_matter_on_a_second_pass():
    method = grpo.Method(PolicyOptions(beta=0.0))
    part = tokens([2, 2], advantages=[1.0, -1.0], weights=[0.5, 0.5])
    moved = Tokens(**{**part.__dict__, "logp": part.logp.detach() + 0.1})
    _, figures = method.loss(moved)
    assert float(figures["ratio"]) == pytest.approx(math.exp(0.1), rel=1e-5)


def test_uniform_weights_skip_what_is_left_out():
    assert uniform_weights(torch.tensor([[True, True, False, True]]))[0].tolist() == pytest.approx(
        [1 / 3, 1 / 3, 0, 1 / 3]
    )
