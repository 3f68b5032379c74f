"""DPO: preferences as a classification of log-ratios (Rafailov et al., arXiv 2305.18290, eq. 7).

    h(y) = beta (log pi(y) - log pi_ref(y)), of the whole response
    loss = mean over pairs of -log sigmoid( h(chosen) - h(rejected) )

Responses are in the order chosen, rejected, chosen, rejected ...; equal models give ln 2.

>>> import torch
>>> from hargo.config.options import PreferenceOptions
>>> logp, reference = torch.tensor([[-1.], [-2.]]), torch.tensor([[-2.], [-1.]])
>>> tokens = Tokens(logp, logp < 0, groups=1, total_tokens=2, ref_logp=reference)
>>> round(float(Method(PreferenceOptions()).loss(tokens)[0]), 6)          # beta .1, margin 2
0.598139
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from hargo.config.options import PreferenceOptions
from hargo.methods.base import Offline, Tokens, pair_figures, sequence_sums


class Method(Offline):
    def __init__(self, options: PreferenceOptions):
        self.options = options

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        policy, reference = sequence_sums(tokens)
        assert reference is not None
        implicit = self.options.beta * (policy - reference)
        chosen, rejected = implicit[0::2], implicit[1::2]
        return -F.logsigmoid(chosen - rejected).sum() / tokens.groups, pair_figures(tokens, chosen, rejected)
