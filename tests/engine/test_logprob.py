"""Log-probabilities in place: the same values and gradients as the textbook's, and one backward pass only."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from hargo.engine import logprob
from hargo.engine.logprob import log_probabilities


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("block", [1, 1 << 20])
def test_values_and_gradients_are_those_of_log_softmax(temperature, block, monkeypatch):
    monkeypatch.setattr(logprob, "BLOCK", block)
    torch.manual_seed(0)
    logits = (4 * torch.randn(7, 31, dtype=torch.float64)).requires_grad_()
    targets, weights = torch.randint(31, (7,)), torch.randn(7, dtype=torch.float64)
    everything = (logits / temperature).log_softmax(-1)
    wanted = everything.gather(-1, targets[:, None])[:, 0]
    (gradient,) = torch.autograd.grad((weights * wanted).sum(), logits)

    logp, plain, entropy = log_probabilities(logits * 1, targets, temperature, plain=True, entropy=True)
    torch.testing.assert_close(logp, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(plain, -F.cross_entropy(logits, targets, reduction="none"), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(entropy, -(everything.exp() * everything).sum(-1), rtol=1e-12, atol=1e-12)
    assert not plain.requires_grad and not entropy.requires_grad
    (found,) = torch.autograd.grad((weights * logp).sum(), logits)
    torch.testing.assert_close(found, gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_tokens_that_cannot_come_leave_entropy_and_gradient_finite(temperature):
    """A vocabulary that is filled up to a round number, its last ids switched off."""
    torch.manual_seed(0)
    logits = 4 * torch.randn(5, 31, dtype=torch.float64)
    shut = logits.clone()
    shut[:, 23:] = -torch.inf
    targets = torch.randint(23, (5,))
    whole, short = shut.requires_grad_(), logits[:, :23].clone().requires_grad_()
    found, wanted = (log_probabilities(x * 1, targets, temperature, plain=True, entropy=True) for x in (whole, short))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    for logp in (found[0], wanted[0]):
        logp.sum().backward()
    torch.testing.assert_close(whole.grad[:, :23], short.grad, rtol=1e-12, atol=1e-12)
    assert (whole.grad[:, 23:] == 0).all()


def test_half_precision_logits_are_summed_in_single_precision():
    torch.manual_seed(0)
    logits = torch.randn(3, 5000).bfloat16()
    targets = torch.tensor([1, 2, 3])
    logp, _, _ = log_probabilities(logits, targets)
    assert logp.dtype == torch.float32
    torch.testing.assert_close(logp, -F.cross_entropy(logits.float(), targets, reduction="none"))


def test_a_second_backward_pass_through_overwritten_logits_is_refused():
    logits = torch.randn(2, 5, requires_grad=True)
    logp, _, _ = log_probabilities(logits * 1, torch.tensor([0, 1]))
    logp.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="inplace"):
        logp.sum().backward()
