"""Which ways of computing several sequences at once are right for a model: tried on a small copy, decided exactly.

Three ways are tried. Packed: a row of groups, a prompt once and its answers behind it. Padded on the right: what
comes later in a row cannot be seen, so that every causal model takes it, with a state or without. Padded on the left,
with a mask, as decoding wants it. Each must give the logits of every sequence alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from hargo.engine import small
from hargo.engine.attention import SDPA, Way, implementation, inputs_of, switched_over
from hargo.engine.inputs import pad_left
from hargo.engine.layout import How, Layout
from hargo.errors import UserError

#: largest gap between logits, as a share of their spread: in double precision right ones are about 1e-12, wrong ones 1
RIGHT = 1e-7

Groups = Sequence[tuple[list[int], list[list[int]]]]

#: prompts with their answers, longer and shorter than the windows and chunks of the small copy
LONG: Groups = [
    ([9, 8, 7, 6, 5, 14, 13, 11, 12], [[15, 31, 16, 17, 18, 19, 20, 21, 22, 23, 24], [30, 29, 28]]),
    ([25, 26], [[27, 40, 41], [42]]),
    ([50, 51, 52, 53, 54, 55, 56], [[57], [58, 59, 60, 61, 62, 63, 64, 65]]),
]
#: a row shorter than all windows and chunks
SHORT: Groups = [([9], [[15], [30]])]

#: what code that was not written for such rows may raise
FAILURES = (TypeError, ValueError, RuntimeError, KeyError, AttributeError, IndexError, AssertionError)


@dataclass(frozen=True)
class Capability:
    """How several sequences may be computed together by a model.

    way: of a packed row: by our attention function with a `Layout`, by dense masks, or None where neither is right
    scores: rows padded on the right are right, which is what training falls back to
    pads: rows padded on the left, with a mask and position ids, are right: decoding prompts of several lengths together
    reason: one line that says why rows are not packed; empty where they are
    gaps: for each way the largest gap between logits, as a share of their spread
    """

    way: Way | None
    scores: bool
    pads: bool
    reason: str = ""
    gaps: dict[str, float] = field(default_factory=dict, repr=False, compare=False)

    @property
    def packs(self) -> bool:
        return self.way is not None

    def require(self, name: str) -> None:
        """UserError where a model called `name` can be trained in no way."""
        if not self.packs and not self.scores:
            raise UserError(f"{name} cannot be trained here: {self.reason}; choose a causal language model")

    @property
    def verdict(self) -> Literal["packs", "padded", "refused"]:
        return "packs" if self.packs else "padded" if self.scores else "refused"


def try_out(config: Any, attention: str | None, layouts: bool) -> Capability:
    """Try what a model of this configuration can do.

    attention: the name of its attention function, None for the one that transformers would choose
    layouts: whether our own may take its place
    """
    from huggingface_hub.errors import StrictDataclassError

    try:
        copy = small.build(small.shrink(config), torch.float64, attn_implementation=attention).double()
    except (*FAILURES, ImportError, StrictDataclassError) as error:
        # padding on the right is right for every causal model by construction
        return Capability(None, True, False, f"no small copy of it can be made to try packing on ({_line(error)})")
    name = implementation(copy.config)
    ways: list[Way] = ["layout"] if layouts and name == SDPA else []
    if name in (SDPA, "eager"):
        ways.append("mask")
    with torch.no_grad(), small.in_double():
        return _Trial(copy).capability(ways)


class _Trial:
    def __init__(self, copy: Any):
        self.copy = copy
        self.gaps: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.order: list[int] = []

    def capability(self, ways: Sequence[Way]) -> Capability:
        copy = self.copy
        try:
            long, short = ([_alone(copy, text) for text in _texts(groups)] for groups in (LONG, SHORT))
        except FAILURES as error:
            # sizes of the copy may not go together where the model's own do: no ground to refuse it
            return self._found(None, f"a small copy of it does not read a text ({_line(error)})")
        try:
            with torch.enable_grad():
                _alone(copy, LONG[0][0]).sum().backward()
        except FAILURES as error:
            return self._found(None, f"its gradient cannot be computed ({_line(error)})", scores=False)
        wanted = torch.cat(long)
        self._try("right", lambda: _padded_right(copy, LONG), wanted)
        self._try("left", lambda: _padded_left(copy, LONG), wanted)
        if not self._is_right("right"):
            return self._found(None, "what comes later in its texts changes what came before", scores=False)
        wanted, brief = _in_a_row(LONG, long), _in_a_row(SHORT, short)
        unchanged = torch.cat(long)
        for way in ways:
            with switched_over(copy) if way == "layout" else nullcontext():
                self._try("short", partial(self._packed, SHORT, way), brief)
                self.order.clear()
                self._try(way, partial(self._packed, LONG, way), wanted)
                self._try("unchanged", lambda: torch.cat([_alone(copy, text) for text in _texts(LONG)]), unchanged)
            # decoding keeps keys and values by layer, in the order in which layers attend
            in_order = self.order == list(range(len(self.order)))
            if self._is_right("unchanged") and self._is_right(way) and in_order:
                return self._found(way)
        return self._found(None, self._why(ways))

    def _packed(self, groups: Groups, way: Way) -> Tensor:
        ids = [token for prompt, answers in groups for part in (prompt, *answers) for token in part]
        positions = [
            place
            for prompt, answers in groups
            for start, part in ((0, prompt), *((len(prompt), answer) for answer in answers))
            for place in range(start, start + len(part))
        ]
        layout = Layout(tuple((len(prompt), tuple(map(len, answers))) for prompt, answers in groups))
        inputs = inputs_of(layout, self.copy, way)
        if way == "layout":
            inputs["layout"] = _Witness(layout, self.order)
        row, places = torch.tensor([ids]), torch.tensor([positions])
        return self.copy(input_ids=row, position_ids=places, use_cache=False, **inputs).logits[0]

    def _try(self, name: str, compute: Callable[[], Tensor], wanted: Tensor) -> None:
        try:
            gap = (compute() - wanted).abs().max() / wanted.std()
            self.gaps[name] = float(gap)
        except FAILURES as error:
            self.gaps[name], self.failed[name] = torch.inf, _line(error)

    def _is_right(self, name: str) -> bool:
        return self.gaps[name] <= RIGHT  # not where it is not a number

    def _why(self, ways: Sequence[Way]) -> str:
        if not ways:
            return f"its attention function {self.copy.config._attn_implementation!r} takes no mask"
        if all(way in self.failed for way in ways):
            return f"it does not take a packed row ({self.failed[ways[-1]]})"
        if self._is_right("short"):
            return "a window or chunk of its layers counts places in the row, not in the text"
        return "its layers carry a state along the row, or do not go by mask and position ids"

    def _found(self, way: Way | None, reason: str = "", scores: bool = True) -> Capability:
        return Capability(way, scores, self.gaps.get("left", torch.inf) <= RIGHT, reason, self.gaps)


def _texts(groups: Groups) -> list[list[int]]:
    return [prompt + answer for prompt, answers in groups for answer in answers]


def _alone(model: Any, text: list[int]) -> Tensor:
    return model(input_ids=torch.tensor([text]), use_cache=False).logits[0]


def _in_a_row(groups: Groups, alone: Sequence[Tensor]) -> Tensor:
    """Logits of every text, in the order of a packed row: a prompt's once."""
    parts, rest = [], iter(alone)
    for prompt, answers in groups:
        for number, logits in enumerate(next(rest) for _ in answers):
            parts.append(logits if number == 0 else logits[len(prompt) :])
    return torch.cat(parts)


def _padded_right(model: Any, groups: Groups) -> Tensor:
    texts = _texts(groups)
    width = max(map(len, texts))
    ids = torch.tensor([text + text[:1] * (width - len(text)) for text in texts])
    logits = model(input_ids=ids).logits
    return torch.cat([row[: len(text)] for row, text in zip(logits, texts, strict=True)])


def _padded_left(model: Any, groups: Groups) -> Tensor:
    texts = _texts(groups)
    rows = pad_left(model, texts, pad=0)
    logits = model(input_ids=rows.ids, attention_mask=rows.mask, position_ids=rows.positions).logits
    return torch.cat([row[-len(text) :] for row, text in zip(logits, texts, strict=True)])


class _Witness:
    """A layout that notes which layers attend."""

    def __init__(self, layout: Layout, order: list[int]):
        self.layout, self.order = layout, order

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: How) -> Tensor:
        self.order.append(layer)
        return self.layout.attend(layer, query, key, value, how)


def _line(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:160]
