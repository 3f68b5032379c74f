"""Linear layers in float32 on the CPU, where torch's own way is not the fastest.

torch computes them by MKL; oneDNN, which torch has too, is faster for most shapes on AMD's processors. Which one
computes a product is looked up in `hargo.engine.kernels`.

Elsewhere MKL's product of a few rows with a transposed matrix, as in decoding, spends more time on rearranging the
matrix than on reading it. Measured at SmolLM2's shapes on one and on two of Intel's AVX-512 cores: a wide matrix as a
batch of blocks of 96 rows, which stay in a core's cache, takes up to half the time for 3 to 16 rows; with a tall
matrix, the weights' side first takes two thirds for 12 rows and more. Small matrices and products of one or two rows
are already limited by memory bandwidth.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hargo.engine.kernels import MEASURED, by_onednn, has_onednn
from hargo.machine import processor

BATCHED, TURNED = range(3, 17), range(12, 65)
BLOCKS = (96, 64, 128)  # rows of a block, of which one must divide those of the matrix
LARGE = 1 << 19  # elements that no longer fit the cache of a core
SMALL = 1 << 16  # elements below which calling oneDNN costs more than it saves
KEPT_PRIMITIVES = "16"  # more than the products of one layer and its gradient have shapes
WORTH_PACKING = 32  # uses of a matrix from which laying it out anew for oneDNN beforehand pays, twenty as measured


class OneDNN(torch.nn.Linear):
    """A linear layer whose products are oneDNN's where that is faster, in float32 and without autocast."""

    def forward(self, input: Tensor) -> Tensor:
        usual = self.weight.dtype != torch.float32 or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling()
        if usual or not input.numel() or not self.faster(input, packed=False):
            return super().forward(input)
        if not torch.is_grad_enabled():
            return _product(input, self.weight, self.bias)
        return _Products.apply(input, self.weight, self.bias)

    def faster(self, input: Tensor, packed: bool) -> bool:
        """Whether oneDNN is, for this many rows; the gradient's products are of the same shape, turned."""
        rows = input.numel() // self.in_features
        return by_onednn(processor(), rows, self.in_features, self.out_features, packed)


class _Products(torch.autograd.Function):
    """x [..., in] -> [..., out], and the two products of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted_x, wanted_weight, wanted_bias = ctx.needs_input_grad
        rows = grad.reshape(-1, grad.shape[-1])
        return (
            _product(grad, weight.t()) if wanted_x else None,
            _product(rows.t(), x.reshape(-1, x.shape[-1]).t()) if wanted_weight else None,
            rows.sum(0) if wanted_bias else None,
        )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x times weight transposed, plus bias."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def use_onednn(model: Any) -> None:
    """Make the model's linear layers use oneDNN where it was measured to be faster, see `hargo.engine.kernels`.

    oneDNN and torch each keep the program that they make for every new number of rows, half a megabyte, up to 1,024
    of them. Rows differ from step to step: the programs would fragment memory among short-lived tensors
    (20 GB after 3,000 shapes), whereas making one anew takes 0.4 ms.
    """
    if processor() not in MEASURED or not has_onednn():
        return
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):  # read at the first product
        os.environ.setdefault(name, KEPT_PRIMITIVES)
    for module in model.modules():
        if type(module) is torch.nn.Linear and module.weight.device.type == "cpu" and module.weight.numel() >= SMALL:
            module.__class__ = OneDNN


@contextmanager
def few_rows(model: Any, times: int) -> Iterator[None]:
    """While open, the model's float32 linear layers on the CPU compute few rows the faster way, without gradient.

    times: how often each will be used at most
    """
    changed = []
    try:
        for module in model.modules():
            if not isinstance(module, torch.nn.Linear) or "forward" in vars(module):
                continue
            weight, bias = module.weight, module.bias
            if weight.device.type != "cpu" or weight.dtype != torch.float32:
                continue
            if type(module) is OneDNN:
                if times < WORTH_PACKING:
                    continue
                packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
                module.__dict__["forward"] = partial(_packed, module, packed)
            elif type(module) is torch.nn.Linear and weight.numel() >= LARGE:
                module.__dict__["forward"] = partial(_linear, weight, bias)
            else:
                continue
            changed.append(module)
        with torch.compiler.set_stance("force_eager") if _compiled(model) else nullcontext():
            yield
    finally:
        for module in changed:
            del module.__dict__["forward"]


def _compiled(model: Any) -> bool:
    return any(module._compiled_call_impl is not None for module in model.modules())


def _packed(layer: OneDNN, packed: Tensor, x: Tensor) -> Tensor:
    if torch.is_autocast_enabled("cpu"):
        return OneDNN.forward(layer, x)
    return _product(x, packed, layer.bias) if layer.faster(x, packed=True) else OneDNN.forward(layer, x)


def _linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    rows, (wide, deep) = len(flat), weight.shape
    block = next((size for size in BLOCKS if wide % size == 0), None)
    if wide >= deep and rows in BATCHED and block:
        blocks = weight.view(-1, block, deep).transpose(1, 2)
        product = torch.bmm(flat.expand(len(blocks), rows, deep), blocks).transpose(0, 1).reshape(rows, wide)
    elif wide < deep and rows in TURNED:
        product = torch.mm(weight, flat.t()).t().contiguous()  # what follows needs rows
    else:
        return F.linear(x, weight, bias)
    if bias is not None:
        product = product + bias
    return product.view(*x.shape[:-1], wide)
