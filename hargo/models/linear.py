"""Linear layers for a few rows at a time, as in decoding.

MKL's product of a few rows with a transposed matrix spends more time on rearranging the matrix than on reading it.
Measured at SmolLM2's shapes on AVX-512 cores, one and two from Intel and two from AMD: a wide matrix as a batch of
blocks of 96 rows, which stay in a core's cache, takes up to half the time for 3 to 16 rows, on AMD any matrix for any
number up to 64; on Intel, with a tall matrix, the weights' side first takes two thirds for 12 rows and more. What is
small, or one or two rows, is as fast as memory as it is on Intel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hargo.provenance import cpu_model

AMD = "AMD" in cpu_model()
BATCHED, TURNED = range(1, 65) if AMD else range(3, 17), range(12, 65)
BLOCKS = (96, 64, 128)  # rows of a block, of which one must divide those of the matrix
LARGE = 1 << 18 if AMD else 1 << 19  # elements: from so many on a matrix is worth it


@contextmanager
def few_rows(model: Any) -> Iterator[None]:
    """While open, the model's float32 linear layers on the CPU compute few rows the faster way, without gradient."""
    changed = [
        module
        for module in model.modules()
        if type(module) is torch.nn.Linear
        and module.weight.device.type == "cpu"
        and module.weight.numel() >= LARGE
        and "forward" not in vars(module)
    ]
    for module in changed:
        module.__dict__["forward"] = partial(_linear, module.weight, module.bias)
    try:
        with torch.compiler.set_stance("force_eager") if _compiled(model) else nullcontext():
            yield
    finally:
        for module in changed:
            del module.__dict__["forward"]


def _compiled(model: Any) -> bool:
    return any(module._compiled_call_impl is not None for module in model.modules())


def _linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    rows, (wide, deep) = len(flat), weight.shape
    block = next((size for size in BLOCKS if wide % size == 0), None)
    if weight.dtype != torch.float32:
        return F.linear(x, weight, bias)
    if block and rows in BATCHED and (AMD or wide >= deep):
        blocks = weight.view(-1, block, deep).transpose(1, 2)
        made = torch.bmm(flat.expand(len(blocks), rows, deep), blocks).transpose(0, 1).reshape(rows, wide)
    elif wide < deep and rows in TURNED:
        made = torch.mm(weight, flat.t()).t().contiguous()  # what follows wants rows
    else:
        return F.linear(x, weight, bias)
    if bias is not None:
        made = made + bias
    return made.view(*x.shape[:-1], wide)
