"""What a model's forward pass takes: names differ, and models swallow one that they do not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class LeftPadded:
    """B texts that end together.

    ids, positions: [B, N]; mask: [B, N], 0 on padding, None where nothing is padded
    """

    ids: Tensor
    positions: Tensor
    mask: Tensor | None


def pad_left(model: Any, texts: Sequence[list[int]], pad: int | None = None) -> LeftPadded:
    """Texts as rows of one length, on the model's device.

    pad: id to pad with, which is masked; one of a text where it is None or outside the vocabulary
    """
    if pad is None or not 0 <= pad < model.get_input_embeddings().weight.shape[0]:
        pad = texts[0][0]
    width = max(map(len, texts))
    ids = [[pad] * (width - len(text)) + text for text in texts]
    mask = torch.tensor([[0] * (width - len(text)) + [1] * len(text) for text in texts], device=model.device)
    return LeftPadded(
        ids=torch.tensor(ids, device=model.device),
        positions=(mask.cumsum(-1) - 1).clamp(min=0),
        mask=mask if any(len(text) < width for text in texts) else None,
    )


def known(model: Any, **inputs: Any) -> dict[str, Any]:
    """Those of the inputs that the model's forward pass names."""
    names = keywords(model)
    return {name: value for name, value in inputs.items() if name in names}


def keywords(model: Any) -> set[str]:
    """Names that the model's forward pass has, and `**` where it takes any."""
    # adapters hide the names of the model that they are around
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    parameters = signature(base.forward).parameters.values()
    return {"**" if parameter.kind is Parameter.VAR_KEYWORD else parameter.name for parameter in parameters}


def last_logits(output: Any) -> Tensor:
    """[rows, V] after the last position, whether or not the model left the others out."""
    return output.logits[:, -1]
