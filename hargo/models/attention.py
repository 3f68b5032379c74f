"""Attention over packed rows, without the squares that a dense mask would compute and throw away.

transformers lets a program add an attention function by name; models stay as they are. A row of groups

    [ prompt_a | a_1 | a_2 | prompt_b | b_1 ]

is attended group by group: a prompt causally and without a mask, its responses to the prompt and themselves.
Given no layout the function is transformers' own SDPA.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

NAME = "hargo"


@dataclass(frozen=True)
class Layout:
    """groups: tokens of the prompt and of each of its responses, in the order of the row."""

    groups: tuple[tuple[int, tuple[int, ...]], ...]
    masks: dict[Any, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def sizes(self) -> list[int]:
        return [prompt + sum(responses) for prompt, responses in self.groups]

    def dense(self, window: int | None = None) -> Tensor:
        """Which token of the row sees which: [N, N] bool."""
        return torch.block_diag(*(group_mask(*group, window) for group in self.groups)).bool()

    def mask(self, number: int, window: int | None, like: Tensor) -> Tensor | None:
        """What to add to the scores of a group's responses: [responses' tokens, group's tokens]; 0 or -inf.

        With a window narrower than the group, of all its tokens.
        """
        prompt, responses = self.groups[number]
        narrow = window is not None and window < prompt + max(responses, default=0)
        key = (self.groups[number], window if narrow else None, like.dtype, like.device)
        if key not in self.masks:
            visible = group_mask(prompt, responses, window if narrow else None)
            rows = visible if narrow else visible[prompt:]
            bias = torch.zeros(rows.shape, dtype=like.dtype).masked_fill(~rows, -torch.inf)
            self.masks[key] = bias.to(like.device)
        return self.masks[key]


def group_mask(prompt: int, responses: tuple[int, ...], window: int | None = None) -> Tensor:
    """Which token of a group (row) sees which (column): [N, N] bool."""
    arm = torch.tensor([0] * prompt + [k for k, size in enumerate(responses, 1) for _ in range(size)])
    visible = ((arm[None, :] == 0) | (arm[:, None] == arm[None, :])).tril()
    if window is not None:
        position = torch.tensor([*range(prompt), *(prompt + k for size in responses for k in range(size))])
        visible &= position[:, None] - position[None, :] < window
    return visible


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    layout: Layout | None = None,
    sliding_window: int | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """query: [1, heads, N, width]; key, value: [1, key heads, N, width] -> [1, N, heads, width]."""
    if layout is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, sliding_window=sliding_window, **more
        )
    done: list[Tensor] = []
    # split once, not sliced: the gradient of every slice would be as long as the row
    parts = zip(*(x.split(layout.sizes, dim=2) for x in (query, key, value)), strict=True)
    for number, (q, k, v) in enumerate(parts):
        prompt, responses = layout.groups[number]
        count = q.shape[2]
        mask = layout.mask(number, sliding_window, q) if count > prompt or sliding_window is not None else None

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
            return F.scaled_dot_product_attention(
                q, k, v, mask, dropout, is_causal=mask is None, scale=scaling, enable_gqa=q.shape[1] != k.shape[1]
            )

        if mask is not None and len(mask) == count:
            done.append(attend(q, k, v, mask))
        elif count == prompt:
            done.append(attend(q, k, v, None))
        else:
            done += [
                attend(q[:, :, :prompt], k[:, :, :prompt], v[:, :, :prompt], None),
                attend(q[:, :, prompt:], k, v, mask),
            ]
    return torch.cat(done, dim=2).transpose(1, 2), None


def enable(model: Any) -> bool:
    """Have a model that computes attention by SDPA on the CPU use `attention`; whether it does.

    On a GPU a row stays one call with a dense mask: the launches of many small ones would take longer.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    if model.device.type == "cpu" and model.config._attn_implementation == "sdpa":
        AttentionInterface.register(NAME, attention)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        model.config._attn_implementation = NAME
    return model.config._attn_implementation == NAME
