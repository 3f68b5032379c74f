"""SimPO: preferences by mean log-probability, without a reference (Meng et al., arXiv 2405.14734, eq. 6).

    h(y) = beta mean_t log pi(y_t)
    loss = mean over pairs of -log sigmoid( h(chosen) - h(rejected) - gamma )

Responses are in the order chosen, rejected, chosen, rejected ...

>>> import torch
>>> from hargo.config.methods import SimPOOptions
>>> logp = torch.tensor([[-1., -1.], [-1., 0.]])
>>> tokens = Tokens(logp, torch.tensor([[True, True], [True, False]]), groups=1, total_tokens=3)
>>> round(float(Method(SimPOOptions()).loss(tokens)[0]), 6)               # equal means: -log sigmoid(-1)
1.313262
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from hargo.config.methods import SimPOOptions
from hargo.methods.base import Offline, Tokens, pair_figures, sequence_sums


class Method(Offline):
    reference = False

    def __init__(self, options: SimPOOptions):
        self.options = options

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        policy, _ = sequence_sums(tokens)
        mean = self.options.beta * policy / tokens.mask.sum(-1).clamp(min=1)
        chosen, rejected = mean[0::2], mean[1::2]
        loss = -F.logsigmoid(chosen - rejected - self.options.gamma).sum() / tokens.groups
        return loss, pair_figures(tokens, chosen, rejected)
