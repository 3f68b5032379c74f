"""Log-probabilities of chosen tokens without a second copy of the logits.

Logits of S tokens over a vocabulary of 49,152 are the largest tensor of a pass, and cross-entropy, temperature,
entropy and their gradients would each make another. Here all of them come from blocks of rows that fit the cache of
a core, and the gradient is written over the logits themselves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: elements of a block, a few MB
BLOCK = 1 << 20


def log_probabilities(
    logits: Tensor, targets: Tensor, temperature: float = 1.0, *, plain: bool = False, entropy: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """log softmax(logits / T) at `targets`, the same at T = 1, and the entropy at T in nats.

    logits: [S, V], used up: the backward pass overwrites them, and autograd refuses a second one
    targets: [S] -> three times [S], float32 or more
    Only the first has a gradient; the others are zeros where not requested.
    """
    return _LogProbabilities.apply(logits, targets, temperature, plain, entropy)


class _LogProbabilities(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, temperature: float, plain: bool, entropy: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        kind = torch.promote_types(logits.dtype, torch.float32)
        logp, normaliser, at_one, spread = (logits.new_zeros(len(logits), dtype=kind) for _ in range(4))
        for rows in _blocks(logits):
            block, chosen = logits[rows].to(kind), targets[rows, None]
            scaled = block if temperature == 1.0 else block / temperature
            if entropy:
                largest = scaled.amax(-1, keepdim=True)
                weight = (scaled - largest).exp_()
                total = weight.sum(-1)
                normaliser[rows] = largest[:, 0] + total.log()
                # a token of logit -inf has weight 0 and adds nothing, but 0 times -inf is NaN
                finite = scaled.clamp(min=torch.finfo(kind).min)
                spread[rows] = normaliser[rows] - weight.mul_(finite).sum(-1) / total
            else:
                normaliser[rows] = scaled.logsumexp(-1)
            logp[rows] = scaled.gather(-1, chosen)[:, 0] - normaliser[rows]
            if plain and temperature != 1.0:
                at_one[rows] = block.gather(-1, chosen)[:, 0] - block.logsumexp(-1)
        if plain and temperature == 1.0:
            at_one.copy_(logp)
        ctx.save_for_backward(logits, targets, normaliser)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(at_one, spread)
        return logp, at_one, spread

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        logits, targets, normaliser = ctx.saved_tensors
        temperature = ctx.temperature
        for rows in _blocks(logits):
            view, chosen = logits[rows], targets[rows, None]
            # d logp / d logits = (one at the target - softmax) / T
            scale = grad[rows, None] / temperature
            block = view.to(normaliser.dtype)
            block.div_(temperature).sub_(normaliser[rows, None]).exp_().mul_(-scale)
            block.scatter_(-1, chosen, block.gather(-1, chosen) + scale)
            if block.dtype != view.dtype:
                view.copy_(block)
        return logits, None, None, None, None


def _blocks(logits: Tensor) -> list[slice]:
    rows = max(1, BLOCK // logits.shape[-1])
    return [slice(start, start + rows) for start in range(0, len(logits), rows)]
