"""An attention function for transformers that follows the layout of a packed row, and the inputs that request it.

transformers lets a program add an attention function by name and hands it keywords that a model does not know; models
stay as they are. The keyword `layout` says how the tokens of a row belong together and attends accordingly; without
one the function is transformers' own SDPA.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from hargo.engine.layout import Attends, How, Layout

NAME, SDPA = "hargo", "sdpa"
Way = Literal["layout", "mask"]


def attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    layout: Attends | None = None,
    sliding_window: int | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """An attention function of transformers: [1, N, heads, width]."""
    if layout is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, sliding_window=sliding_window, **more
        )
    output = layout.attend(module.layer_idx, query, key, value, How(scaling, dropout, sliding_window))
    return output.transpose(1, 2).contiguous(), None  # as transformers' own: some models take a view of it


def switch_over(model: Any, back: bool = False) -> None:
    """Have a model that computes attention by SDPA use `attention`; `back`: SDPA again.

    Parts of a model may have configurations of their own.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    old, new = (NAME, SDPA) if back else (SDPA, NAME)
    for config in _configs(model):
        if config._attn_implementation_internal == old:
            config._attn_implementation_internal = new


@contextmanager
def switched_over(model: Any) -> Iterator[None]:
    """`switch_over` while open."""
    switch_over(model)
    try:
        yield
    finally:
        switch_over(model, back=True)


def _configs(model: Any) -> Iterator[Any]:
    for module in model.modules():
        config = getattr(module, "config", None)
        if hasattr(config, "_attn_implementation_internal"):
            yield config


def inputs_of(layout: Layout, model: Any, way: Way) -> dict[str, Any]:
    """The layout as a model's inputs: itself where `attention` computes it, else as dense masks.

    Where some layers see a sliding window of positions only they get a narrower one.
    """
    if way == "layout":
        return {"attention_mask": None, "layout": layout}
    config = model.config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    full = _for_kernel(layout.dense(), model)
    if window is None or (kinds and not any("sliding" in kind for kind in kinds)):
        return {"attention_mask": full}
    narrow = _for_kernel(layout.dense(window), model)
    if not kinds:
        return {"attention_mask": narrow}
    named = {*kinds, "full_attention", "sliding_attention"}
    return {"attention_mask": {kind: narrow if "sliding" in kind else full for kind in named}}


def _for_kernel(mask: Tensor, model: Any) -> Tensor:
    """[N, N] -> [1, 1, N, N]; SDPA takes a boolean mask, eager attention adds its mask to the scores."""
    mask = mask.to(model.device)[None, None]
    if implementation(model.config) != "eager":
        return mask
    return torch.zeros_like(mask, dtype=model.dtype).masked_fill(~mask, torch.finfo(model.dtype).min)


def implementation(config: Any) -> str | None:
    """The name of the attention function that a model of this configuration uses, None before it has one."""
    return config.get_text_config(decoder=True)._attn_implementation
