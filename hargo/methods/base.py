"""What a method sees and gives: tensors in, a scalar loss and metrics out. No model, no loop, no task.

A method's module has a class `Method(options)` with

* `shares(signals) -> Shares`: once per batch, without gradient: what each response is worth
* `loss(tokens) -> (loss, sums)`: for any part of the batch that holds whole groups; losses of the parts add up
  to the loss of the batch, because every denominator in `Tokens` belongs to the whole batch
* `state_dict()` / `load_state_dict(state)`: numbers carried from batch to batch, kept in checkpoints

Shapes: P prompts, G responses per prompt, R = responses in this part, T = longest response.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Signals:
    """Per response of the whole batch.

    rewards: [P, G]
    valid: [P, G] bool; a response without a usable reward is left out of its group
    confidence: [P, G], mean over tokens of log pi_ref at temperature 1
    """

    rewards: Tensor
    valid: Tensor
    confidence: Tensor


@dataclass(frozen=True)
class Shares:
    """advantages, weights: [P, G] (weights of a group sum to 1); logged: further [P, G] values for the log."""

    advantages: Tensor
    weights: Tensor
    logged: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Per token of the responses in one part of the batch.

    logp: [R, T] log pi of the tokens, with gradient; old_logp, ref_logp: [R, T] without
    mask: [R, T] bool, true on real tokens up to and including the first end-of-sequence token
    advantages, weights: [R]
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


class Method(Protocol):
    def shares(self, signals: Signals) -> Shares: ...

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]: ...

    def state_dict(self) -> dict[str, float | None]: ...

    def load_state_dict(self, state: dict[str, float | None]) -> None: ...


class Stateless:
    """For methods that carry nothing from batch to batch."""

    def state_dict(self) -> dict[str, float | None]:
        return {}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        if state:
            raise ValueError(f"this method has no state, the checkpoint holds {sorted(state)}")


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


def clipped_surrogate(logp: Tensor, old_logp: Tensor, advantages: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """PPO's clipped surrogate as a loss, per token, and the ratio: logp, old_logp [R, T], advantages [R].

    >>> ratio = torch.tensor([[1.5], [1.5], [.5], [.5]])
    >>> loss, _ = clipped_surrogate(ratio.log(), torch.zeros(4, 1), torch.tensor([1., -1., 1., -1.]), .2)
    >>> [round(value, 4) for value in loss.flatten().tolist()]
    [-1.2, 1.5, -0.5, 0.8]
    """
    ratio = (logp - old_logp).clamp(-20.0, 20.0).exp()
    value = advantages.unsqueeze(-1)
    loss = -torch.minimum(ratio * value, ratio.clamp(1 - clip, 1 + clip) * value)
    return loss, ratio


def token_sums(mask: Tensor, **values: Tensor) -> dict[str, Tensor]:
    """Sums over real tokens, for averages over the whole batch later: name -> scalar."""
    return {name: value.detach().masked_fill(~mask, 0.0).sum() for name, value in values.items()}
