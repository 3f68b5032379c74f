"""RLOO: REINFORCE with the other responses as baseline (Ahmadian et al., arXiv 2402.14740, sec. 3.2).

    A_i = r_i - mean of r_j over j != i
    rho_i = pi(y_i) / pi_old(y_i), of the whole response
    loss = mean over responses of -min(rho_i A_i, clip(rho_i, 1 - c, 1 + c) A_i) + beta sum_t KL_it

The paper subtracts the KL from the reward; here it stays in the loss, as for every method, so that beta means one
thing. On policy the gradient is REINFORCE's, A_i times that of log pi(y_i).

>>> import torch
>>> from hargo.config.options import RolloutOptions
>>> rewards = torch.tensor([[1., 0., 0., 0.]])
>>> Method(RolloutOptions()).shares(Signals(rewards, rewards >= 0, rewards)).advantages
tensor([[ 1.0000, -0.3333, -0.3333, -0.3333]])
"""

from __future__ import annotations

from torch import Tensor

from hargo.methods.base import (
    OnPolicy,
    Shares,
    Signals,
    Tokens,
    group_advantages,
    mean_over_responses,
    response_terms,
    sequence_sums,
)


class Method(OnPolicy):
    def shares(self, signals: Signals) -> Shares:
        count = signals.valid.sum(-1, keepdim=True)
        centred = group_advantages(signals.rewards, signals.valid, None)
        # r - mean of the others = (r - mean of all) n / (n - 1)
        return Shares(centred * count / (count - 1).clamp(min=1), mean_over_responses(signals.valid))

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        assert tokens.old_logp is not None and tokens.weights is not None
        whole, _ = sequence_sums(tokens)
        old = tokens.old_logp.masked_fill(~tokens.mask, 0.0).sum(-1)
        surrogate, kl, figures = response_terms(tokens, self.options, whole - old)
        return (tokens.weights * (surrogate + kl.sum(-1))).sum(), figures
