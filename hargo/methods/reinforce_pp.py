"""REINFORCE++: advantages normalised over the whole batch (Hu, arXiv 2501.03262, sec. 3).

    A_i = (r_i - mean of the batch) / (std of the batch + eps)
    loss = sum over responses and tokens of -min(rho_it A_i, clip(rho_it, 1 - c, 1 + c) A_i) / tokens in the batch
           + beta KL

The paper subtracts the KL from the reward token by token; here it stays in the loss, as for every method.

>>> import torch
>>> from hargo.config.options import PolicyOptions
>>> rewards = torch.tensor([[1., 1.], [0., 0.]])                 # equal in a group, not in the batch
>>> Method(PolicyOptions()).shares(Signals(rewards, rewards >= 0, rewards)).advantages
tensor([[ 0.8659,  0.8659],
        [-0.8659, -0.8659]])
"""

from __future__ import annotations

from torch import Tensor

from hargo.methods.base import OnPolicy, Shares, Signals, Tokens, group_advantages, policy_terms, uniform_weights


class Method(OnPolicy):
    def shares(self, signals: Signals) -> Shares:
        one_group = group_advantages(signals.rewards.view(1, -1), signals.valid.view(1, -1), self.options.eps)
        return Shares(one_group.view_as(signals.rewards), uniform_weights(signals.valid))

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        per_token, figures = policy_terms(tokens, self.options.clip, self.options.beta)
        return per_token.sum() / tokens.total_tokens, figures
