"""The layout of a packed row: which tokens belong together, which of them see which, and attention that follows it.

A row of groups, their prompts' common beginning once,

    [ prefix | prompt_a | a_1 | a_2 | prompt_b | b_1 ]

is attended group by group, without the squares that a dense mask would compute and throw away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

#: tokens that a common beginning must have, so that attending to it apart pays
WORTH_SHARING = 8


class How(NamedTuple):
    """What a layer passes to attention. scale: of the scores; window: positions that a token looks back, if not all."""

    scale: float | None
    dropout: float
    window: int | None


class Attends(Protocol):
    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: How) -> Tensor:
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

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: How) -> Tensor:
        # split once, not sliced: the gradient of every slice would be as long as the row
        parts = [x.split([self.prefix, *self.sizes], dim=2) for x in (query, key, value)]
        first, first_k, first_v = (part[0] for part in parts)
        done = [self._part(first, first_k, first_v, 0, (), how)] if self.prefix else []
        for (prompt, responses), q, k, v in zip(self.groups, *(part[1:] for part in parts), strict=True):
            if self.prefix:
                k, v = torch.cat([first_k, k], dim=2), torch.cat([first_v, v], dim=2)
            # responses apart, so that the prompt is not compared with them
            seen = self.prefix + prompt
            done.append(self._part(q[:, :, :prompt], k[:, :, :seen], v[:, :, :seen], self.prefix, (), how))
            if sum(responses):
                done.append(self._part(q[:, :, prompt:], k, v, seen, responses, how))
        return torch.cat(done, dim=2)

    def _part(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        before: int,
        responses: tuple[int, ...],
        how: How,
    ) -> Tensor:
        """Attention of the last tokens of a group; `before`: how many of its keys are older than they."""
        prompt = before if responses else key.shape[2]
        window = how.window
        narrow = window if window is not None and window < prompt + max(responses, default=0) else None
        bias = None
        if before or responses or narrow:
            kind = (prompt, before, responses, narrow, query.dtype, query.device)
            if kind not in self.masks:
                visible = group_mask(prompt, responses, narrow)[before:]
                self.masks[kind] = additive(visible, query)
            bias = self.masks[kind]
        return sdpa(query, key, value, bias, how)


@dataclass(frozen=True)
class Past:
    """Prompts that were read with a gradient, for a pass over answers to them.

    order: numbers of the prompts in their row; layout: of that row, no responses
    layers: keys and values of the row, [1, key heads, N, width]; logits: [P, V] after each prompt
    """

    order: list[int]
    layout: Layout
    layers: list[tuple[Tensor, Tensor]]
    logits: Tensor


@dataclass(frozen=True)
class Continued(Layout):
    """A row of responses to prompts that were read before.

    groups: as in `Layout`, in the order of the prompts' row; layers: keys and values of that row, see `Past`
    """

    layers: Sequence[tuple[Tensor, Tensor]] = ()

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: How) -> Tensor:
        sizes = [sum(responses) for _, responses in self.groups]
        before = [self.prefix, *(prompt for prompt, _ in self.groups)]
        first, *prompts = zip(*(x.split(before, dim=2) for x in self.layers[layer]), strict=True)
        own = (x.split(sizes, dim=2) for x in (query, key, value))
        done = []
        for (prompt, responses), older, q, k, v in zip(self.groups, prompts, *own, strict=True):
            if sum(responses):
                k, v = (torch.cat(parts, dim=2) for parts in zip(first, older, (k, v), strict=True))
                done.append(self._part(q, k, v, self.prefix + prompt, responses, how))
        return torch.cat(done, dim=2)


def common_prefix(prompts: Sequence[list[int]]) -> int:
    """How many tokens all prompts begin with, leaving each one of its own; 0 where sharing them would not pay."""
    if len(prompts) < 2:
        return 0
    first, last = min(prompts), max(prompts)  # in dictionary order these differ earliest
    same = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    shared = min(same, *(len(prompt) - 1 for prompt in prompts))
    return shared if shared >= WORTH_SHARING else 0


def sdpa(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, how: How) -> Tensor:
    """torch's attention; causal where there is no bias to add to the scores."""
    shared = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(
        query, key, value, bias, how.dropout, is_causal=bias is None, scale=how.scale, enable_gqa=shared
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
