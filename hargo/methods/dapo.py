"""DAPO: decoupled clipping, token mean, dynamic sampling (Yu et al., arXiv 2503.14476, eq. 8).

    loss = sum over responses and tokens of -min(rho_it A_i, clip(rho_it, 1 - c, 1 + c') A_i) / tokens in the batch

A_i as in GRPO; c' > c leaves room for unlikely tokens to grow. Groups whose rewards are all equal are replaced by
those of other prompts (`resample`, done while sampling). No KL term by default, as in the paper. The mean over
tokens is a mean over responses, each weighted by its share of the batch's tokens.

>>> import torch
>>> from hargo.config.methods import DAPOOptions
>>> logp, old = torch.tensor([[0., 0.], [0., -9.]]), torch.tensor([[-.25, 0.], [0., 0.]])
>>> mask = torch.tensor([[True, True], [True, False]])
>>> tokens = Tokens(logp, mask, groups=1, total_tokens=3, old_logp=old, ref_logp=logp,
...                 advantages=torch.tensor([1., -1.]), weights=torch.tensor([2., 1.]) / 3)
>>> round(float(Method(DAPOOptions()).loss(tokens)[0]), 4)     # (-1.28 - 1 + 1) / 3
-0.4267
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from hargo.config.methods import DAPOOptions
from hargo.methods import grpo
from hargo.methods.base import Shares, Signals, Tokens, mean_over_tokens, policy_terms, weighted_mean


class Method(grpo.Method):
    options: DAPOOptions

    def shares(self, signals: Signals) -> Shares:
        return replace(super().shares(signals), weights=mean_over_tokens(signals.valid, signals.lengths))

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        per_token, figures = policy_terms(tokens, self.options, self.options.clip_high)
        return weighted_mean(tokens, per_token), figures
