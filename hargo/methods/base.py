"""What a method sees and gives: tensors in, a scalar loss and metrics out. No model, no loop, no task.

A method's module has a class `Method(options)` with

* `shares(signals) -> Shares`: once per batch of rollouts, without gradient: what each response is worth
* `loss(tokens) -> (loss, figures)`: for any part of the batch that holds whole groups; losses and figures of the
  parts add up to those of the batch, because every denominator in `Tokens` belongs to the whole batch
* `state_dict()` / `load_state_dict(state)`: numbers carried from batch to batch, kept in checkpoints
* `critic`: true if it wants value estimates; `reference`: false if it never looks at the SFT model, which then
  is not even loaded; `mismatched`: true if it wants the divergence on answers to other prompts

Shapes: P prompts, G responses per prompt, R = responses in this part, T = longest response.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from hargo.config.options import PolicyOptions


@dataclass(frozen=True)
class Signals:
    """Per response of the whole batch.

    rewards: [P, G]
    valid: [P, G] bool; a response without a usable reward is left out of its group
    confidence: [P, G], mean over tokens of log pi_ref at temperature 1
    values: [P, G, T], the critic's estimate before each token, for methods with a critic; 0 beyond the response
    mask: [P, G, T] bool, which tokens are real; there with `values`
    """

    rewards: Tensor
    valid: Tensor
    confidence: Tensor
    values: Tensor | None = None
    mask: Tensor | None = None


@dataclass(frozen=True)
class Shares:
    """advantages: [P, G], or [P, G, T] per token; weights: [P, G], those of a group sum to 1.

    logged: further [P, G] values for the log; returns: [P, G, T], what a critic is to predict
    """

    advantages: Tensor
    weights: Tensor
    logged: dict[str, Tensor] = field(default_factory=dict)
    returns: Tensor | None = None


@dataclass(frozen=True)
class Tokens:
    """Per token of the responses in one part of the batch.

    logp: [R, T] log pi of the tokens, with gradient; old_logp, ref_logp: [R, T] without
    mask: [R, T] bool, true on real tokens up to and including the first end-of-sequence token
    advantages: [R] or [R, T]; weights: [R]
    values: [R, T] the critic's estimates, with gradient; old_values, returns: [R, T] without
    reference_point: mean of log pi - log pi_ref over answers to other prompts, per answer
    groups, total_tokens: in the whole batch, the global denominators
    """

    logp: Tensor
    mask: Tensor
    groups: int
    total_tokens: int
    old_logp: Tensor | None = None
    ref_logp: Tensor | None = None
    advantages: Tensor | None = None
    weights: Tensor | None = None
    values: Tensor | None = None
    old_values: Tensor | None = None
    returns: Tensor | None = None
    reference_point: float = 0.0


class Method(Protocol):
    critic: bool
    reference: bool
    mismatched: bool

    def shares(self, signals: Signals) -> Shares: ...

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]: ...

    def state_dict(self) -> dict[str, float | None]: ...

    def load_state_dict(self, state: dict[str, float | None]) -> None: ...


class Stateless:
    """For methods that carry nothing from batch to batch and want nothing out of the ordinary."""

    critic = False
    reference = True
    mismatched = False

    def state_dict(self) -> dict[str, float | None]:
        return {}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        if state:
            raise ValueError(f"this method has no state, the checkpoint holds {sorted(state)}")


class OnPolicy(Stateless):
    """For methods that learn from rollouts and ask the SFT model for the KL alone."""

    def __init__(self, options: PolicyOptions):
        self.options = options
        self.reference = options.beta > 0


class Offline(Stateless):
    """For methods that learn from answers collected beforehand and need no shares."""

    def shares(self, signals: Signals) -> Shares:
        raise AssertionError(f"{type(self).__module__} does not learn from rollouts")


def group_advantages(rewards: Tensor, valid: Tensor, eps: float | None) -> Tensor:
    """(r - mean) / (std + eps) within each group; sample deviation; `eps=None` leaves the division out.

    rewards, valid: [P, G] -> [P, G]. Left-out responses get 0, and so does every response of a group whose
    rewards are all equal, exactly, whatever the rounding of the mean.

    >>> group_advantages(torch.tensor([[1., 0., 0., 0.]]), torch.ones(1, 4, dtype=torch.bool), 1e-4)
    tensor([[ 1.4997, -0.4999, -0.4999, -0.4999]])
    """
    count = valid.sum(-1, keepdim=True)
    kept = rewards.masked_fill(~valid, 0.0)
    mean = kept.sum(-1, keepdim=True) / count.clamp(min=1)
    centred = (kept - mean).masked_fill(~valid, 0.0)
    high = rewards.masked_fill(~valid, -torch.inf).amax(-1, keepdim=True)
    low = rewards.masked_fill(~valid, torch.inf).amin(-1, keepdim=True)
    centred = centred.masked_fill(high <= low, 0.0)
    if eps is None:
        return centred
    std = (centred.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    # without eps a group of equal rewards would divide 0 by 0
    return centred / (std + eps).clamp(min=torch.finfo(rewards.dtype).tiny)


def uniform_weights(valid: Tensor) -> Tensor:
    """1 / (responses kept) for each kept response: [P, G] bool -> [P, G]."""
    return valid.float() / valid.sum(-1, keepdim=True).clamp(min=1)


def kl_k3(logp: Tensor, ref_logp: Tensor, bound: float = 10.0) -> Tensor:
    """The k3 estimator of KL(pi || pi_ref) per token, `exp(d) - d - 1` with d = ref - logp; never negative.

    Beyond `bound` the exponential goes on as its tangent, so that loss and gradient stay finite and keep
    pulling the right way. Source: Schulman, "Approximating KL divergence" (2020).

    >>> kl_k3(torch.tensor([-1., -1.]), torch.tensor([-1.5, -0.5]))
    tensor([0.1065, 0.1487])
    """
    gap = ref_logp - logp
    inner = gap.clamp(max=bound)
    # expm1 keeps the digits where the two nearly agree, which is where most tokens are
    return torch.expm1(inner) + inner.exp() * (gap - inner) - gap


def clipped_surrogate(
    logp: Tensor, old_logp: Tensor, advantages: Tensor, clip: float, clip_high: float | None = None
) -> tuple[Tensor, Tensor]:
    """PPO's clipped surrogate as a loss, per token, and the ratio.

    logp, old_logp: [R, T]; advantages: [R] or [R, T]; the ratio is held in [1 - clip, 1 + clip_high], the upper
    bound being that of `clip` where `clip_high` is None.

    >>> ratio = torch.tensor([[1.5], [1.5], [.5], [.5]])
    >>> loss, _ = clipped_surrogate(ratio.log(), torch.zeros(4, 1), torch.tensor([1., -1., 1., -1.]), .2)
    >>> [round(value, 4) for value in loss.flatten().tolist()]
    [-1.2, 1.5, -0.5, 0.8]
    """
    ratio = (logp - old_logp).clamp(-20.0, 20.0).exp()
    value = advantages if advantages.ndim == logp.ndim else advantages.unsqueeze(-1)
    high = clip if clip_high is None else clip_high
    loss = -torch.minimum(ratio * value, ratio.clamp(1 - clip, 1 + high) * value)
    return loss, ratio


def token_means(tokens: Tokens, **values: Tensor) -> dict[str, Tensor]:
    """This part's share of the mean of [R, T] values over the real tokens of the whole batch: name -> scalar."""
    return {
        name: value.detach().masked_fill(~tokens.mask, 0.0).sum() / tokens.total_tokens
        for name, value in values.items()
    }


def policy_terms(
    tokens: Tokens, clip: float, beta: float, clip_high: float | None = None, *, surrogate: bool = True
) -> tuple[Tensor, dict[str, Tensor]]:
    """Surrogate + beta KL per token, 0 on padding: [R, T]; and the figures for the log.

    Without the SFT model's log-probabilities there is no KL, neither in the loss nor in the log.

    surrogate: false leaves beta KL alone, for methods whose ratio is that of a whole response.
    """
    assert tokens.old_logp is not None and tokens.advantages is not None
    per_token, ratio = clipped_surrogate(tokens.logp, tokens.old_logp, tokens.advantages, clip, clip_high)
    outside = ((ratio < 1 - clip) | (ratio > 1 + (clip if clip_high is None else clip_high))).float()
    figures = {"clip_share": outside, "ratio": ratio}
    wanted = per_token if surrogate else torch.zeros_like(per_token)
    if tokens.ref_logp is not None:
        figures["kl"] = kl_k3(tokens.logp, tokens.ref_logp)
        wanted = beta * figures["kl"] + wanted
    return wanted.masked_fill(~tokens.mask, 0.0), token_means(tokens, **figures)


def sequence_sums(tokens: Tokens) -> tuple[Tensor, Tensor | None]:
    """Log-probability of each whole response under the policy and under the SFT model: [R], [R] or None."""
    real = tokens.logp.masked_fill(~tokens.mask, 0.0).sum(-1)
    if tokens.ref_logp is None:
        return real, None
    return real, tokens.ref_logp.masked_fill(~tokens.mask, 0.0).sum(-1)


def pair_figures(tokens: Tokens, chosen: Tensor, rejected: Tensor) -> dict[str, Tensor]:
    """Share of pairs with the chosen response ahead, and by how much, in a method's implicit rewards [pairs]."""
    margin = (chosen - rejected).detach()
    return {"pair_accuracy": (margin > 0).float().sum() / tokens.groups, "pair_margin": margin.sum() / tokens.groups}
