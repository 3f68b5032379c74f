"""Attention over packed rows, without the squares that a dense mask would compute and throw away.

transformers lets a program add an attention function by name and hands it keywords that a model does not know; models
stay as they are. The keyword `layout` says how the tokens of a row belong together and attends accordingly; without
one the function is transformers' own SDPA. A row of groups, their prompts' common beginning once,

    [ prefix | prompt_a | a_1 | a_2 | prompt_b | b_1 ]

is attended group by group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

NAME = "hargo"
WORTH_SHARING = 8


class Attends(Protocol):
    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float | None,
        dropout: float,
        window: int | None,
    ) -> Tensor:
        """query: [1, heads, N, width]; key, value: [1, key heads, N, width] -> like query."""
        ...


@dataclass(frozen=True)
class Layout:
    """A row of groups.

    groups: tokens of the prompt, without the prefix, and of each of its responses, in the order of the row
    prefix: tokens that all prompts begin with, at the beginning of the row
    """

    groups: tuple[tuple[int, tuple[int, ...]], ...]
    prefix: int = 0
    masks: dict[Any, Tensor] = field(default_factory=dict, repr=False, compare=False)

    @property
    def sizes(self) -> list[int]:
        return [prompt + sum(responses) for prompt, responses in self.groups]

    def dense(self, window: int | None = None) -> Tensor:
        """Which token of the row (row) sees which (column): [N, N] bool."""
        total = self.prefix + sum(self.sizes)
        visible = torch.zeros(total, total, dtype=torch.bool)
        visible[: self.prefix, : self.prefix] = group_mask(self.prefix, (), window)
        start = self.prefix
        for (prompt, responses), size in zip(self.groups, self.sizes, strict=True):
            mask = group_mask(self.prefix + prompt, responses, window)[self.prefix :]
            visible[start : start + size, : self.prefix] = mask[:, : self.prefix]
            visible[start : start + size, start : start + size] = mask[:, self.prefix :]
            start += size
        return visible

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float | None,
        dropout: float,
        window: int | None,
    ) -> Tensor:
        # split once, not sliced: the gradient of every slice would be as long as the row
        parts = [x.split([self.prefix, *self.sizes], dim=2) for x in (query, key, value)]
        first, first_k, first_v = (part[0] for part in parts)
        done = [self._part(first, first_k, first_v, 0, (), window, scale, dropout)] if self.prefix else []
        for (prompt, responses), q, k, v in zip(self.groups, *(part[1:] for part in parts), strict=True):
            if self.prefix:
                k, v = torch.cat([first_k, k], dim=2), torch.cat([first_v, v], dim=2)
            # responses apart, so that the prompt is not compared with them
            seen = self.prefix + prompt
            done.append(
                self._part(q[:, :, :prompt], k[:, :, :seen], v[:, :, :seen], self.prefix, (), window, scale, dropout)
            )
            if responses:
                done.append(self._part(q[:, :, prompt:], k, v, seen, responses, window, scale, dropout))
        return torch.cat(done, dim=2)

    def _part(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        before: int,
        responses: tuple[int, ...],
        window: int | None,
        scale: float | None,
        dropout: float,
    ) -> Tensor:
        """Attention of the last tokens of a group; `before`: how many of its keys are older than they."""
        prompt = before if responses else key.shape[2]
        narrow = window if window is not None and window < prompt + max(responses, default=0) else None
        bias = None
        if before or responses or narrow:
            kind = (prompt, before, responses, narrow, query.dtype, query.device)
            if kind not in self.masks:
                visible = group_mask(prompt, responses, narrow)[before:]
                self.masks[kind] = additive(visible, query)
            bias = self.masks[kind]
        return sdpa(query, key, value, bias, scale, dropout)


def common_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with, leaving each one of its own; 0 where sharing them would not pay."""
    if len(prompts) < 2:
        return 0
    first, last = min(prompts), max(prompts)  # in dictionary order these differ earliest
    same = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    shared = min(same, *(len(prompt) - 1 for prompt in prompts))
    return shared if shared >= WORTH_SHARING else 0


def sdpa(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float | None, dropout: float) -> Tensor:
    """torch's attention; causal where there is no bias to add to the scores."""
    shared = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(
        query, key, value, bias, dropout, is_causal=bias is None, scale=scale, enable_gqa=shared
    )


def additive(visible: Tensor, like: Tensor) -> Tensor:
    """0 where visible, else -inf, in the type of `like`: a boolean mask would be converted at every call."""
    return torch.zeros(visible.shape, dtype=like.dtype, device=like.device).masked_fill(
        ~visible.to(like.device), -torch.inf
    )


def group_mask(prompt: int, responses: tuple[int, ...], window: int | None = None) -> Tensor:
    """Which token of a group (row) sees which (column): [N, N] bool."""
    arm = torch.tensor([0] * prompt + [k for k, size in enumerate(responses, 1) for _ in range(size)])
    visible = ((arm[None, :] == 0) | (arm[:, None] == arm[None, :])).tril()
    if window is not None:
        position = torch.tensor([*range(prompt), *(prompt + k for size in responses for k in range(size))])
        visible &= position[:, None] - position[None, :] < window
    return visible


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
    found = layout.attend(module.layer_idx, query, key, value, scaling, dropout, sliding_window)
    return found.transpose(1, 2), None


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
