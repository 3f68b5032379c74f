"""The KL to the SFT model: which divergence its gradient belongs to, and that it stays finite."""

from __future__ import annotations

import math

import pytest
import torch
from batches import POLICY, prepared
from torch import Tensor

from hargo.config import METHODS, study_from
from hargo.errors import UserError
from hargo.methods import load
from hargo.methods.base import Tokens, importance_ratio, kl_exact, kl_k3

PI, REF = torch.tensor([0.98, 0.01, 0.01]), torch.tensor([0.34, 0.33, 0.33])


def expected_gradient(name: str, kl: str) -> Tensor:
    """Mean over the policy's own distribution of a method's gradient by the three logits, from beta KL alone."""
    spec = METHODS[name]
    options = {"beta": 1.0, "kl": kl, **({"length": 1} if name == "dr_grpo" else {})}
    method = load(name, spec.options(**{**spec.preset, **options}))
    logits = PI.log().requires_grad_()
    logp = logits.log_softmax(-1).unsqueeze(-1)  # a response of each token, which counts as often as it is drawn
    none = torch.zeros(3, 1)
    tokens = Tokens(
        logp,
        torch.ones(3, 1, dtype=torch.bool),
        groups=1,
        total_tokens=3,
        old_logp=logp.detach(),
        ref_logp=REF.log().unsqueeze(-1),
        advantages=torch.zeros(3),
        weights=PI,
        values=none,
        old_values=none,
        returns=none,
    )
    loss, _ = method.loss(tokens)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(float((PI * (PI / REF).log()).sum()), rel=1e-5)
    return logits.grad


@pytest.mark.parametrize("name", POLICY)
def test_the_exact_kl_has_the_gradient_of_kl_pi_ref_for_every_method(name):
    logits = PI.log().requires_grad_()
    logp = logits.log_softmax(-1)
    (logp.exp() * (logp - REF.log())).sum().backward()
    assert float(logits.grad[0]) == pytest.approx(0.089, abs=5e-4)
    torch.testing.assert_close(expected_gradient(name, "exact"), logits.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", POLICY)
def test_k3_as_in_the_paper_has_the_gradient_of_kl_ref_pi(name):
    torch.testing.assert_close(expected_gradient(name, "k3"), PI - REF, rtol=1e-4, atol=1e-6)


def test_the_two_agree_near_the_reference():
    logp = torch.tensor([-1.0, -2.0], requires_grad=True)
    reference = logp.detach() + torch.tensor([1e-3, -1e-3])
    (k3,) = torch.autograd.grad(kl_k3(logp, reference).sum(), logp)
    (exact,) = torch.autograd.grad(kl_exact(logp, reference, torch.ones(2)).sum(), logp)
    torch.testing.assert_close(k3, exact, rtol=2e-3, atol=1e-7)


def test_off_policy_the_exact_kl_is_weighed_by_the_ratio():
    """Value and gradient are those of `ratio * k3`, as autograd has them."""
    generator = torch.Generator().manual_seed(0)
    logp, old, reference = (-3 * torch.rand(5, generator=generator) for _ in range(3))
    logp.requires_grad_()
    ours = kl_exact(logp, reference, importance_ratio(logp, old))
    plain = (logp - old).exp() * ((reference - logp).exp() - (reference - logp) - 1)
    torch.testing.assert_close(ours, plain)
    (got,), (wanted,) = (torch.autograd.grad(x.sum(), logp) for x in (ours, plain))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gap", [100.0, -100.0])
def test_the_exact_kl_is_finite_and_pulls_back_at_a_gap_of_100(gap):
    logp = torch.zeros(1, requires_grad=True)
    value = kl_exact(logp, torch.tensor([gap]), torch.ones(1))
    value.sum().backward()
    assert torch.isfinite(value).all() and torch.isfinite(logp.grad).all()
    assert math.copysign(1, -float(logp.grad)) == math.copysign(1, gap)


@pytest.mark.parametrize("name", [name for name in POLICY if name != "dapo"])
def test_k3_is_the_default_and_the_log_shows_its_value_in_either_form(name):
    outcomes = {}
    for options in ({}, {"kl": "k3"}, {"kl": "exact"}):
        method, part = prepared(name, **options)
        loss, figures = method.loss(part)
        loss.backward()
        outcomes[options.get("kl")] = loss.detach(), part.logp.grad, figures["kl"]
    assert torch.equal(outcomes[None][1], outcomes["k3"][1]) and not torch.equal(
        outcomes[None][1], outcomes["exact"][1]
    )
    # on policy the two differ in the gradient alone
    torch.testing.assert_close(outcomes["k3"][0], outcomes["exact"][0])
    assert outcomes["k3"][2] == outcomes["exact"][2] > 0


def test_a_study_sets_it_for_all_methods_that_have_one():
    study = study_from(
        {"name": "x", "pretrain": {}, "rl": {"kl": "exact"}, "methods": {"grpo": {}, "hargo": {"kl": "k3"}, "dpo": {}}},
        "study.yaml",
    )
    assert (study.method("grpo").kl, study.method("hargo").kl) == ("exact", "k3")
    with pytest.raises(UserError, match=r"unknown key in methods\.dpo 'kl'"):
        study_from({"name": "x", "pretrain": {}, "methods": {"dpo": {"kl": "exact"}}}, "study.yaml")
