"""Supervised fine-tuning: maximum likelihood of the reference answer.

    loss = - sum of log pi(y_t | q, y_<t) over answer tokens / answer tokens in the batch

With `average: answers`, each answer counts the same, however long it is:

    loss = - mean over answers of the mean over its tokens of log pi(y_t | q, y_<t)

The denominators are those of the whole batch, so that splitting a batch over passes changes nothing.

>>> import torch
>>> from hargo.methods.base import Tokens
>>> logp = torch.tensor([[-1., -1., 0., 0.], [-2., -2., -2., -2.]])
>>> mask = torch.tensor([[True, True, False, False], [True] * 4])
>>> loss, _ = Method().loss(Tokens(logp, mask, groups=2, total_tokens=6))
>>> round(float(loss), 5)
1.66667
>>> from hargo.config.options import SFTOptions
>>> loss, _ = Method(SFTOptions(average="answers")).loss(Tokens(logp, mask, groups=2, total_tokens=6))
>>> round(float(loss), 5)
1.5
"""

from __future__ import annotations

from torch import Tensor

from hargo.config.options import OptimOptions, SFTOptions
from hargo.methods.base import Offline, Tokens


class Method(Offline):
    reference = False

    def __init__(self, options: OptimOptions | None = None):
        self.by_answer = isinstance(options, SFTOptions) and options.average == "answers"

    def loss(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        logp = tokens.logp.masked_fill(~tokens.mask, 0.0)
        if self.by_answer:
            return -(logp.sum(-1) / tokens.mask.sum(-1).clamp(min=1)).sum() / tokens.groups, {}
        return -logp.sum() / tokens.total_tokens, {}
