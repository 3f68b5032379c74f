"""The interface of a method: tensors in, a scalar loss and metrics out. No model, no loop, no task.

A method's module has a class `Method(options)` with

* `shares(signals) -> Shares`: once per batch of rollouts, without gradient: what each response is worth
* `loss(tokens) -> (loss, figures)`: for any part of the batch that holds whole groups; losses and figures of the
  parts add up to those of the batch, because weights and denominators in `Tokens` belong to the whole batch
* `state_dict()` / `load_state_dict(state)`: numbers carried from batch to batch, kept in checkpoints
* `critic`: true if it needs value estimates; `reference`: false if it never uses the SFT model, which then
  is not even loaded; `mismatched`: true if it needs the divergence on answers to other prompts

Shapes: P prompts, G responses per prompt, R = responses in this part, T = longest response.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from hargo.config.options import RolloutOptions


@dataclass(frozen=True)
class Signals:
    """Per response of the whole batch.

    rewards: [P, G]
    valid: [P, G] bool; a response without a usable reward is left out of its group
    confidence: [P, G], mean over tokens of log pi_ref at temperature 1
    values: [P, G, T], the critic's estimate before each token, for methods with a critic; 0 beyond the response
    mask: [P, G, T] bool, which tokens are real; there with `values`
    lengths: [P, G], real tokens of each response, for methods that count tokens
    """

    rewards: Tensor
    valid: Tensor
    confidence: Tensor
    values: Tensor | None = None
    mask: Tensor | None = None
    lengths: Tensor | None = None


@dataclass(frozen=True)
class Shares:
    """advantages: [P, G], or [P, G, T] per token; weights: [P, G], each response's share of the loss.

    The weights of a batch sum to 1. A response that is left out has none, so that the others count as they would
    without it; where all are left out every weight is 0.

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
    advantages: [R] or [R, T]; weights: [R], shares of the whole batch's loss
    values: [R, T] the critic's estimates, with gradient; old_values, returns: [R, T] without
    reference_point: mean of log pi - log pi_ref over answers to other prompts, per answer
    groups, total_tokens: in the whole batch, the denominators of pairs, of demonstrations and of figures
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
    """For methods that carry nothing from batch to batch and need nothing out of the ordinary."""

    critic = False
    reference = True
    mismatched = False

    def state_dict(self) -> dict[str, float | None]:
        return {}

    def load_state_dict(self, state: dict[str, float | None]) -> None:
        if state:
            raise ValueError(f"this method has no state, but the checkpoint holds {sorted(state)}")


class OnPolicy(Stateless):
    """For methods that learn from rollouts and use the SFT model for the KL only."""

    def __init__(self, options: RolloutOptions):
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
    usable = rewards.masked_fill(~valid, 0.0)
    mean = usable.sum(-1, keepdim=True) / count.clamp(min=1)
    centred = (usable - mean).masked_fill(~valid, 0.0)
    high = rewards.masked_fill(~valid, -torch.inf).amax(-1, keepdim=True)
    low = rewards.masked_fill(~valid, torch.inf).amin(-1, keepdim=True)
    centred = centred.masked_fill(high <= low, 0.0)
    if eps is None:
        return centred
    std = (centred.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    # without eps a group of equal rewards would divide 0 by 0
    return centred / (std + eps).clamp(min=torch.finfo(rewards.dtype).tiny)


def uniform_weights(valid: Tensor) -> Tensor:
    """1 / (responses kept in the group) for each kept response: [P, G] bool -> [P, G]."""
    return valid.float() / valid.sum(-1, keepdim=True).clamp(min=1)


def mean_over_groups(weights: Tensor, valid: Tensor) -> Tensor:
    """Weights that sum to 1 in each group, as shares of a batch whose groups count alike: [P, G] -> [P, G].

    A group without a usable response does not count.
    """
    return weights / valid.any(-1).sum().clamp(min=1)


def mean_over_responses(valid: Tensor) -> Tensor:
    """The same share for each kept response of the batch: [P, G] bool -> [P, G]."""
    return valid.float() / valid.sum().clamp(min=1)


def mean_over_tokens(valid: Tensor, lengths: Tensor | None) -> Tensor:
    """Shares in proportion to length, which make a mean over responses one over tokens: [P, G], [P, G] -> [P, G].

    >>> mean_over_tokens(torch.tensor([[True, True, False]]), torch.tensor([[1, 3, 9]]))
    tensor([[0.2500, 0.7500, 0.0000]])
    """
    assert lengths is not None, "a mean over tokens needs the lengths of the responses"
    kept = lengths.float().masked_fill(~valid, 0.0)
    return kept / kept.sum().clamp(min=1)


def kl_k3(logp: Tensor, ref_logp: Tensor, bound: float = 10.0) -> Tensor:
    """The k3 estimator of KL(pi || pi_ref) per token, `exp(d) - d - 1` with d = ref - logp; never negative.

    Its mean over tokens drawn from pi is KL(pi || pi_ref). The mean of its gradient is not that of KL(pi || pi_ref)
    but of KL(pi_ref || pi), since the distribution that tokens are drawn from has a gradient too: near the reference
    the two agree, far from it this one is several times stronger. `kl_exact` has the other.

    Beyond `bound` the exponential goes on as its tangent, so that loss and gradient stay finite and keep
    pulling the right way. Source: Schulman, "Approximating KL divergence" (2020).

    >>> kl_k3(torch.tensor([-1., -1.]), torch.tensor([-1.5, -0.5]))
    tensor([0.1065, 0.1487])
    """
    gap = ref_logp - logp
    inner = gap.clamp(max=bound)
    # expm1 keeps the digits where the two nearly agree, which is where most tokens are
    return torch.expm1(inner) + inner.exp() * (gap - inner) - gap


def kl_exact(logp: Tensor, ref_logp: Tensor, ratio: Tensor) -> Tensor:
    """k3 times the importance ratio pi / pi_old per token: value and gradient are on average those of KL(pi || pi_ref).

    logp, ref_logp, ratio: [R, T] -> [R, T]. The gradient of `ratio * k3` is `ratio * (logp - ref_logp)` times that
    of logp: the exponentials cancel, so it is written down here and stays finite whatever the gap.
    Source: DeepSeek-V3.2 (arXiv 2512.02556).
    """
    ratio, gap = ratio.detach(), (logp - ref_logp).detach()
    return ratio * kl_k3(logp.detach(), ref_logp) + ratio * gap * (logp - logp.detach())


def importance_ratio(logp: Tensor, old_logp: Tensor) -> Tensor:
    """pi / pi_old, its logarithm held within 20, so that it is finite."""
    return (logp - old_logp).clamp(-20.0, 20.0).exp()


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
    ratio = importance_ratio(logp, old_logp)
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
    tokens: Tokens, options: RolloutOptions, clip_high: float | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Surrogate + beta KL per token, 0 on padding: [R, T]; and the figures for the log."""
    assert tokens.old_logp is not None and tokens.advantages is not None
    surrogate, ratio = clipped_surrogate(tokens.logp, tokens.old_logp, tokens.advantages, options.clip, clip_high)
    kl, figures = _kl_term(tokens, options)
    figures |= _ratio_figures(ratio, options.clip, clip_high)
    return (kl + surrogate).masked_fill(~tokens.mask, 0.0), token_means(tokens, **figures)


def response_terms(
    tokens: Tokens, options: RolloutOptions, log_ratio: Tensor, clip_high: float | None = None
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """For methods with one ratio for a whole response: its surrogate [R], beta KL per token [R, T], figures.

    log_ratio: [R]. The KL is that of single tokens all the same, the exact one with the ratio of the token.
    """
    assert tokens.advantages is not None
    surrogate, ratio = clipped_surrogate(
        log_ratio, torch.zeros_like(log_ratio), tokens.advantages, options.clip, clip_high
    )
    kl, figures = _kl_term(tokens, options)
    figures |= _ratio_figures(ratio.unsqueeze(-1).expand_as(tokens.logp), options.clip, clip_high)
    return surrogate, kl.masked_fill(~tokens.mask, 0.0), token_means(tokens, **figures)


def _kl_term(tokens: Tokens, options: RolloutOptions) -> tuple[Tensor, dict[str, Tensor]]:
    """beta KL per token, [R, T], and its figure; without the SFT model's log-probabilities there is none."""
    if tokens.ref_logp is None:
        return torch.zeros_like(tokens.logp), {}
    k3 = kl = kl_k3(tokens.logp, tokens.ref_logp)
    if options.kl == "exact":
        assert tokens.old_logp is not None
        kl = kl_exact(tokens.logp, tokens.ref_logp, importance_ratio(tokens.logp, tokens.old_logp))
    return options.beta * kl, {"kl": k3}


def _ratio_figures(ratio: Tensor, clip: float, clip_high: float | None) -> dict[str, Tensor]:
    """The ratio and where it is beyond the clip range."""
    high = clip if clip_high is None else clip_high
    return {"clip_share": ((ratio < 1 - clip) | (ratio > 1 + high)).float(), "ratio": ratio}


def weighted_mean(tokens: Tokens, per_token: Tensor) -> Tensor:
    """Mean over the tokens of each response, weighed by the shares of the responses: [R, T], 0 on padding -> scalar."""
    assert tokens.weights is not None
    return (tokens.weights * per_token.sum(-1) / tokens.mask.sum(-1).clamp(min=1)).sum()


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
