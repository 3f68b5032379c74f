"""Supervised fine-tuning: maximum likelihood of the reference answer.

    loss = - sum of log pi(y_t | q, y_<t) over answer tokens / answer tokens in the batch

The denominator is that of the whole batch, so that splitting a batch over passes changes nothing.

>>> import torch
>>> from hargo.methods.base import Tokens
>>> logp = torch.tensor([[-1., -1., 0., 0.], [-2., -2., -2., -2.]])
>>> mask = torch.tensor([[True, True, False, False], [True] * 4])
>>> loss, _ = Method().loss(Tokens(logp, mask, groups=2, total_tokens=6))
>>> round(float(loss), 5)
1.66667
"""

from __future__ import annotations

from torch import Tensor

from hargo.config.options import OptimOptions
from hargo.methods.base import Offline, Tokens


class Method(Offline):
    reference = False

    def __init__(self, options: OptimOptions | None = None):
        self.options = options

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        return -tokens.logp.masked_fill(~tokens.mask, 0.0).sum() / tokens.total_tokens, {}
