"""REINFORCE++: advantages normalised over the whole batch (Hu, arXiv 2501.03262, sec. 3).

    A_i = (r_i - mean of the batch) / (std of the batch + eps)
    loss = sum over responses and tokens of -min(rho_it A_i, clip(rho_it, 1 - c, 1 + c) A_i) / tokens in the batch
           + beta KL

The paper subtracts the KL from the reward token by token; here it stays in the loss, as for every method. The mean
over tokens is GRPO's loss with each response weighted by its share of the batch's tokens.

>>> import torch
>>> from hargo.config.options import PolicyOptions
>>> rewards = torch.tensor([[1., 1.], [0., 0.]])                 # equal in a group, not in the batch
>>> Method(PolicyOptions()).shares(Signals(rewards, rewards >= 0, rewards, lengths=torch.ones(2, 2))).advantages
tensor([[ 0.8659,  0.8659],
        [-0.8659, -0.8659]])
"""

from __future__ import annotations

from hargo.methods import grpo
from hargo.methods.base import Shares, Signals, group_advantages, mean_over_tokens


class Method(grpo.Method):
    def shares(self, signals: Signals) -> Shares:
        one_group = group_advantages(signals.rewards.view(1, -1), signals.valid.view(1, -1), self.options.eps)
        return Shares(one_group.view_as(signals.rewards), mean_over_tokens(signals.valid, signals.lengths))
