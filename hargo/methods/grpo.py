"""GRPO: group-relative policy optimisation (Shao et al., DeepSeekMath, arXiv 2402.03300, eq. 3).

    A_i = (r_i - mean r) / (std r + eps)                          within the group
    L_i = mean_t [ -min(rho_it A_i, clip(rho_it, 1 - c, 1 + c) A_i) + beta KL_it ]
    loss = mean over groups of sum_i w_i L_i,  w_i = 1/G

rho_it = pi / pi_old, KL_it the k3 estimator against the frozen SFT model, both at the sampling temperature.
HARGO is this loss with other advantages and weights. The gradient of plain k3 is on average that of
KL(ref || pi); `kl: exact` multiplies it by rho_it, which makes it that of KL(pi || ref), as in TRL since 1.16.

>>> import torch
>>> from hargo.config.options import PolicyOptions
>>> from hargo.methods.base import Signals
>>> method = Method(PolicyOptions())
>>> shares = method.shares(Signals(torch.tensor([[1., 0.]]), torch.ones(1, 2, dtype=torch.bool), torch.zeros(1, 2)))
>>> logp = torch.tensor([[-1., -1.], [-2., 0.]])
>>> tokens = Tokens(logp, torch.tensor([[True, True], [True, False]]), groups=1, total_tokens=3, old_logp=logp,
...                 ref_logp=logp, advantages=shares.advantages[0], weights=shares.weights[0])
>>> abs(round(float(method.loss(tokens)[0]), 6))     # on policy and at the reference the value is 0
0.0
"""

from __future__ import annotations

from torch import Tensor

from hargo.config.options import PolicyOptions
from hargo.methods.base import (
    OnPolicy,
    Shares,
    Signals,
    Tokens,
    group_advantages,
    mean_over_groups,
    policy_terms,
    uniform_weights,
    weighted_mean,
)


class Method(OnPolicy):
    options: PolicyOptions

    def shares(self, signals: Signals) -> Shares:
        advantages = group_advantages(signals.rewards, signals.valid, self.options.eps)
        return Shares(advantages, mean_over_groups(uniform_weights(signals.valid), signals.valid))

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        per_token, figures = policy_terms(tokens, self.options)
        return weighted_mean(tokens, per_token), figures
