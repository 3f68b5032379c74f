"""What a model's forward pass takes: names differ, and models swallow one that they do not know."""

from __future__ import annotations

from inspect import signature
from typing import Any

from torch import Tensor


def known(model: Any, **inputs: Any) -> dict[str, Any]:
    """Those of the inputs that the model's forward pass names."""
    # adapters hide the names of the model that they are around
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    names = signature(base.forward).parameters
    return {name: value for name, value in inputs.items() if name in names}


def last_logits(output: Any) -> Tensor:
    """[rows, V] after the last position, whether or not the model left the others out."""
    return output.logits[:, -1]
