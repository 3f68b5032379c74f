"""GSPO: one importance ratio for a whole response (Zheng et al., arXiv 2507.18071, eq. 5-7).

    s_i = exp( mean_t [ log pi(y_it) - log pi_old(y_it) ] )
    loss = mean over groups of sum_i w_i ( -min(s_i A_i, clip(s_i, 1 - c, 1 + c') A_i) + beta mean_t KL_it )

A_i as in GRPO, w_i = 1/G. The paper clips at 3e-4 and 4e-4, since s_i is a mean over tokens.

>>> import torch
>>> from hargo.config.methods import GSPOOptions
>>> logp, old = torch.tensor([[-1., -1.], [-1., -1.]]), torch.tensor([[-1., -1.001], [-1., -1.]])
>>> tokens = Tokens(logp, logp < 0, groups=1, total_tokens=4, old_logp=old, ref_logp=logp,
...                 advantages=torch.tensor([1., -1.]), weights=torch.tensor([.5, .5]))
>>> round(float(Method(GSPOOptions()).loss(tokens)[0]), 6)     # (-1.0004 + 1) / 2: the first ratio is clipped
-0.0002
"""

from __future__ import annotations

from torch import Tensor

from hargo.config.methods import GSPOOptions
from hargo.methods import grpo
from hargo.methods.base import Tokens, response_terms


class Method(grpo.Method):
    options: GSPOOptions

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        assert tokens.old_logp is not None and tokens.weights is not None
        lengths = tokens.mask.sum(-1).clamp(min=1)
        gap = (tokens.logp - tokens.old_logp).masked_fill(~tokens.mask, 0.0).sum(-1) / lengths
        surrogate, kl, figures = response_terms(tokens, self.options, gap, self.options.clip_high)
        return (tokens.weights * (surrogate + kl.sum(-1) / lengths)).sum(), figures
