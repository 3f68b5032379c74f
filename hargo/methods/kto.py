"""KTO: desirable and undesirable answers, each by itself (Ethayarajh et al., arXiv 2402.01306, eq. 8).

    h(y) = beta (log pi(y) - log pi_ref(y)),   z = beta max(0, mean of log pi - log pi_ref on answers to other prompts)
    loss = mean over responses of  u (1 - sigmoid(h - z)) if desirable,  u' (1 - sigmoid(z - h)) if not

The chosen answer of a pair counts as desirable, the rejected one as undesirable; z carries no gradient.

>>> import torch
>>> from hargo.config.methods import KTOOptions
>>> logp = torch.tensor([[-1.], [-2.]])
>>> float(Method(KTOOptions()).loss(Tokens(logp, logp < 0, groups=1, total_tokens=2, ref_logp=logp))[0])
0.5
"""

from __future__ import annotations

import torch
from torch import Tensor

from hargo.config.methods import KTOOptions
from hargo.methods.base import Offline, Tokens, pair_figures, sequence_sums


class Method(Offline):
    mismatched = True

    def __init__(self, options: KTOOptions):
        self.options = options

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        policy, reference = sequence_sums(tokens)
        assert reference is not None
        options = self.options
        implicit = options.beta * (policy - reference)
        chosen, rejected = implicit[0::2], implicit[1::2]
        z = options.beta * max(0.0, tokens.reference_point)
        good = options.desirable * (1 - torch.sigmoid(chosen - z))
        bad = options.undesirable * (1 - torch.sigmoid(z - rejected))
        return (good.sum() + bad.sum()) / (2 * tokens.groups), pair_figures(tokens, chosen, rejected)
