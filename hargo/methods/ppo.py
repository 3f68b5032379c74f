"""PPO with a value head on the policy's trunk (Schulman et al., arXiv 1707.06347; GAE: arXiv 1506.02438, eq. 16).

    delta_t = r_t + gamma V_{t+1} - V_t,   A_t = delta_t + gamma lambda A_{t+1},   R_t = A_t + V_t
    loss = mean over tokens of -min(rho_t A_t, clip(rho_t, 1 - c, 1 + c) A_t) + beta KL_t
           + (v / 2) max( (V - R)^2, (V_old + clip(V - V_old, -c_v, c_v) - R)^2 )

The reward is given at a response's last real token; advantages are whitened over the batch's real tokens. The value
head is one linear layer on the states that the output layer reads, zero at the start: a separate critic would
double memory and passes for answers of a few tokens. It samples as many responses per prompt as GRPO does.

>>> import torch
>>> values, mask = torch.tensor([[.5, .6, .7]]), torch.ones(1, 3, dtype=torch.bool)
>>> [round(value, 5) for value in gae(torch.tensor([1.]), values, mask, gamma=1.0, lam=0.95)[0].tolist()]
[0.46575, 0.385, 0.3]
"""

from __future__ import annotations

import torch
from torch import Tensor

from hargo.config.methods import PPOOptions
from hargo.methods.base import (
    OnPolicy,
    Shares,
    Signals,
    Tokens,
    mean_over_tokens,
    policy_terms,
    token_means,
    weighted_mean,
)


class Method(OnPolicy):
    critic = True
    options: PPOOptions

    def shares(self, signals: Signals) -> Shares:
        assert signals.values is not None and signals.mask is not None
        mask = signals.mask & signals.valid.unsqueeze(-1)
        rewards, values, flat = signals.rewards.flatten(), signals.values.flatten(0, 1), mask.flatten(0, 1)
        advantages = gae(rewards, values, flat, self.options.gamma, self.options.lam)
        returns = (advantages + values).view_as(signals.values)
        weights = mean_over_tokens(signals.valid, signals.mask.sum(-1))
        return Shares(whiten(advantages, flat).view_as(signals.values), weights, returns=returns)

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        assert tokens.values is not None and tokens.old_values is not None and tokens.returns is not None
        options = self.options
        per_token, figures = policy_terms(tokens, options)
        change = (tokens.values - tokens.old_values).clamp(-options.value_clip, options.value_clip)
        error = (tokens.values - tokens.returns).square()
        error = torch.maximum(error, (tokens.old_values + change - tokens.returns).square())
        error = error.masked_fill(~tokens.mask, 0.0)
        figures |= token_means(tokens, value_loss=error / 2, value=tokens.values)
        return weighted_mean(tokens, per_token + options.value_weight / 2 * error), figures


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimates: rewards [R] at the last real token, values and mask [R, T] -> [R, T]."""
    values = values.masked_fill(~mask, 0.0)
    following = torch.cat([values[:, 1:], values.new_zeros(len(values), 1)], dim=-1)
    last = mask & ~torch.cat([mask[:, 1:], mask.new_zeros(len(mask), 1)], dim=-1)
    delta = (last * rewards.unsqueeze(-1) + gamma * following - values).masked_fill(~mask, 0.0)
    advantages = torch.zeros_like(values)
    ahead = values.new_zeros(len(values))
    for step in reversed(range(values.shape[-1])):
        ahead = delta[:, step] + gamma * lam * ahead
        advantages[:, step] = ahead
    return advantages.masked_fill(~mask, 0.0)


def whiten(values: Tensor, mask: Tensor, eps: float = 1e-8) -> Tensor:
    """Mean 0 and deviation 1 over the real tokens, 0 elsewhere; a single token, or equal ones, give 0: [R, T]."""
    count = mask.sum().clamp(min=1)
    centred = (values - values.masked_fill(~mask, 0.0).sum() / count).masked_fill(~mask, 0.0)
    return centred / ((centred.square().sum() / count).sqrt() + eps)
