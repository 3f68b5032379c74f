"""Dr.GRPO: GRPO without its length and difficulty biases (Liu et al., arXiv 2503.20783, sec. 3).

    A_i = r_i - mean r
    loss = sum over responses and tokens of the surrogate and beta KL / (responses * L)

L is a constant length, never the padded width, so padding columns change nothing.

>>> import torch
>>> from hargo.methods.base import Signals
>>> rewards = torch.tensor([[1., 0., 0., 0.]])
>>> Method(DrGRPOOptions()).shares(Signals(rewards, rewards >= 0, rewards)).advantages
tensor([[ 0.7500, -0.2500, -0.2500, -0.2500]])
"""

from __future__ import annotations

from torch import Tensor

from hargo.config.methods import DrGRPOOptions
from hargo.methods.base import (
    OnPolicy,
    Shares,
    Signals,
    Tokens,
    group_advantages,
    mean_over_responses,
    policy_terms,
)


class Method(OnPolicy):
    options: DrGRPOOptions

    def shares(self, signals: Signals) -> Shares:
        return Shares(group_advantages(signals.rewards, signals.valid, None), mean_over_responses(signals.valid))

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        per_token, figures = policy_terms(tokens, self.options)
        assert tokens.weights is not None
        return (tokens.weights * per_token.sum(-1)).sum() / self.options.length, figures
