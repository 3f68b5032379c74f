"""What a study switches on in a model: bfloat16, recomputation in the backward pass, compilation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from hargo.config.options import ComputeOptions
from hargo.errors import UserError


def switch_on(model: Any, compute: ComputeOptions) -> None:
    """Change `model` in place; UserError where it does not support a switch."""
    if compute.compile:
        compile_parts(model)
    if compute.gradient_checkpointing:
        recompute(model)
    if compute.precision == "bfloat16":
        model.forward = torch.autocast(model.device.type, torch.bfloat16)(model.forward)


def compile_parts(model: Any) -> None:
    """Make torch.compile fuse what is between matrix products: norms and feed-forward parts of every layer.

    Not attention, whose shape is that of the row, and not the few rows of decoding, which have layers of their own.
    """
    for layer in layers(model):
        for part in layer.children():
            if "attention" not in type(part).__name__.lower():
                part.compile(dynamic=True)


def layers(model: Any) -> list[Any]:
    """The model's decoder layers."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def recompute(model: Any) -> None:
    """Keep the inputs of layers only and compute the rest again in the backward pass: less memory, a third more time.

    transformers does so in training mode alone, which would switch on dropout, in a layer's own code too.
    """
    found = layers(model)
    if not model.supports_gradient_checkpointing or not found:
        raise UserError(f"compute.gradient_checkpointing: {type(model).__name__} does not support it; set it to false")
    for layer in found:
        layer.forward = _recomputed(layer.forward)


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def switched(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    return switched
