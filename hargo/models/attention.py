"""Attention over packed rows, without the squares that a dense mask would compute and throw away.

transformers lets a program add an attention function by name and hands it keywords that a model does not know; models
stay as they are. The keyword `layout` says how the tokens of a row belong together and attends accordingly; without
one the function is transformers' own SDPA. A row of groups, their prompts' common beginning once,

    [ prefix | prompt_a | a_1 | a_2 | prompt_b | b_1 ]

is attended group by group.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakSet

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from hargo.models.tryout import Capability

logger = logging.getLogger(__name__)

NAME, SDPA = "hargo", "sdpa"
Way = Literal["layout", "mask"]
WORTH_SHARING = 8


class How(NamedTuple):
    """What a layer asks of attention. scale: of the scores; window: positions that a token looks back, if not all."""

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


@dataclass
class Past:
    """Prompts that were read with a gradient, for a pass over answers to them.

    most: tokens that may be kept; a greater number is not
    order: numbers of the prompts in their row; layout: of that row, no responses
    layers: keys and values of the row, [1, key heads, N, width]; logits: [P, V] after each prompt
    """

    most: int
    order: list[int] = field(default_factory=list)
    layout: Layout | None = None
    layers: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    logits: Tensor | None = None


@dataclass(frozen=True)
class Continued(Layout):
    """A row of responses to prompts that were read before. groups: as in `Layout`, of the prompts' order in `past`."""

    past: Past = field(default_factory=lambda: Past(0))

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: How) -> Tensor:
        sizes = [sum(responses) for _, responses in self.groups]
        before = [self.prefix, *(prompt for prompt, _ in self.groups)]
        first, *prompts = zip(*(x.split(before, dim=2) for x in self.past.layers[layer]), strict=True)
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
    found = layout.attend(module.layer_idx, query, key, value, How(scaling, dropout, sliding_window))
    return found.transpose(1, 2).contiguous(), None  # as transformers' own: some models take a view of it


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


def enable(model: Any) -> bool:
    """Have a model whose packed rows are right by a `Layout` use `attention`; whether it does.

    On a GPU a row stays one call with a dense mask: the launches of many small ones would take longer.
    """
    if capability(model).way != "layout":
        return False
    if implementation(model.config) != NAME:
        switch_over(model)
    return True


def for_attention(layout: Layout, model: Any) -> dict[str, Any]:
    """The layout as inputs of a model that packs."""
    enable(model)
    way = capability(model).way
    assert way is not None, "a model that does not pack"
    return inputs_of(layout, model, way)


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


_OF_MODEL: WeakKeyDictionary[Any, Capability] = WeakKeyDictionary()
_OF_KIND: dict[tuple[str, str | None, str], Capability] = {}


def capability(model: Any, device: str = "cpu") -> Capability:
    """How several sequences may be computed together by a model, or by one of a configuration.

    It depends on the architecture alone: each way is tried on a small copy of it, once in a process.
    model: a model or its configuration; device: its kind, for a configuration
    """
    if not hasattr(model, "config"):
        return _of_kind(model, device)
    if model not in _OF_MODEL:
        _OF_MODEL[model] = _of_kind(model.config, model.device.type)
    return _OF_MODEL[model]


def _of_kind(config: Any, device: str) -> Capability:
    from hargo.models.tryout import try_out

    name = implementation(config)
    name = SDPA if name == NAME else name
    kind = (config.to_json_string(), name, device)
    if kind not in _OF_KIND:
        _OF_KIND[kind] = try_out(config, name, layouts=device == "cpu")
    return _OF_KIND[kind]


_TOLD: WeakSet[Any] = WeakSet()


def packs(model: Any) -> bool:
    """Whether a packed row gives what its sequences alone give; says so once where it does not."""
    found = capability(model)
    if not found.packs and model not in _TOLD:
        _TOLD.add(model)
        logger.warning(
            "%s cannot compute packed rows: %s; every response is read with its own prompt, which takes longer",
            type(model).__name__,
            found.reason,
        )
    return found.packs
