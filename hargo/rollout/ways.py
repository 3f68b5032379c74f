"""How a model can be sampled, tried out once: models differ in their attention, their masks and their caches.

A way is tried on a small copy of the model: on a prompt longer than the copy's windows and chunks
and a short one, with two samples each, which end at different times. The log-probabilities that come with the samples
are compared with those of each text read alone. What a model cannot do shows as an error or as a gap of the size of a
real fault; that of rounding is a ten-thousandth of it, on any processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from hargo.engine import small
from hargo.engine.attention import NAME
from hargo.engine.capability import enable, packs
from hargo.engine.inputs import known
from hargo.errors import UserError
from hargo.rollout import packed, padded, whole
from hargo.rollout.request import Completion, Request

#: share of a real fault that a way's gap may have
TOLERANCE = 0.02

#: what a model may raise when given inputs that it cannot handle
REFUSALS = (TypeError, ValueError, RuntimeError, KeyError, IndexError, AttributeError, AssertionError, UserError)


class Way(NamedTuple):
    """A way to decode.

    kind: `packed`, `padded` or `whole`, the modules of this package
    pads: prompts of different length may be read together; moves: the rows of the cache can be repeated and removed
    """

    kind: str
    pads: bool = True
    moves: bool = True

    def complete(
        self,
        model: Any,
        requests: Sequence[Request],
        samples: int,
        temperature: float | None,
        stop: Sequence[int],
        pad: int | None = None,
    ) -> list[list[Completion]]:
        """Completions [len(requests)][samples] of prompts decoded together."""
        if self.kind == "packed":
            return packed.complete(model, requests, samples, temperature, stop).completions
        if self.kind == "padded":
            return padded.complete(model, requests, samples, temperature, stop, pad, self.moves)
        return whole.complete(model, requests, samples, temperature, stop)


#: in order of cost
WAYS = (
    Way("packed"),
    Way("padded"),
    Way("padded", moves=False),
    Way("padded", pads=False),
    Way("padded", pads=False, moves=False),
    Way("whole", pads=False),
)

_FOUND: WeakKeyDictionary[Any, Way | str] = WeakKeyDictionary()


def way_of(model: Any) -> Way | None:
    """The cheapest way that gives what each text alone gives; None where there is none, see `can_sample`."""
    way = _found(model)
    return None if isinstance(way, str) else way


def can_sample(model: Any) -> str | None:
    """Why a model cannot be sampled; None where it can. Takes a second or less, once per model."""
    reason = _found(model)
    return reason if isinstance(reason, str) else None


def _found(model: Any) -> Way | str:
    if model not in _FOUND:
        with torch.no_grad():
            _FOUND[model] = _try_out(model, _copy(model))
    return _FOUND[model]


def _copy(model: Any) -> Any:
    """A small copy; the model itself where its architecture cannot be made small."""
    kind = model.config._attn_implementation
    attention = "sdpa" if kind == NAME else kind
    # in double precision a model may behave differently; in half, rounding would be as large as a fault
    dtype = torch.float64 if model.dtype == torch.float64 else torch.float32
    try:
        return small.build(small.shrink(model.config), dtype, attn_implementation=attention)
    except REFUSALS:
        return model


#: the first and last longer than a copy's windows and chunks, and than the other by no multiple of them
LONG, SHORT, ALSO_LONG = [*range(5, 27)], [27, 28, 29], [*range(30, 52)]


def _try_out(model: Any, copy: Any) -> Way | str:
    name = type(model).__name__
    try:
        if _sees_what_comes(copy):
            return f"{name} predicts a token from those that come after it, so it is not a causal language model"
    except REFUSALS as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"{name} cannot read a text of plain tokens: {first}"
    for way in WAYS:
        try:
            if way.kind == "packed" and not (packs(model) and enable(model) and enable(copy)):
                continue
            if _agrees(copy, way):
                return way
        except REFUSALS:
            continue
    return f"{name} gives different probabilities while an answer is written than for the whole text"


def _sees_what_comes(model: Any) -> bool:
    """Whether changing the last token changes what is predicted before it by as much as an earlier one does."""
    text, cut = [*LONG, *SHORT], len(LONG)
    before = _logits(model, text)[:cut]
    later = (_logits(model, [*LONG, *SHORT[::-1]])[:cut] - before).abs().max()
    earlier = (_logits(model, [*LONG[::-1], *SHORT])[:cut] - before).abs().max()
    return bool(later > TOLERANCE * earlier)


def _agrees(model: Any, way: Way) -> bool:
    """Whether log-probabilities of sampled answers are those of their texts read alone."""
    prompts = [LONG, SHORT] if way.pads else [LONG, ALSO_LONG]
    requests = [Request(prompt, limit, f"try/{limit}") for prompt, limit in zip(prompts, (3, 9), strict=True)]
    answers = way.complete(model, requests, 2, 1.0, stop=[])
    gaps, faults = [], []
    for prompt, other, samples in zip(prompts, prompts[::-1], answers, strict=True):
        for one in samples:
            alone = _logp(model, prompt, one.ids)
            gaps.append(torch.tensor(one.logp, device=alone.device) - alone)
            # what an answer gets where it sees what it must not: another prompt, or what a shorter one is padded with
            faults += [_logp(model, wrong, one.ids) - alone for wrong in (other, [prompt[0]] * 5 + prompt)]
    return bool(torch.cat(gaps).abs().max() <= TOLERANCE * torch.cat(faults).abs().max())


def _logits(model: Any, text: list[int]) -> Tensor:
    """[tokens, V] of a text alone, read in one piece."""
    return model(**known(model, input_ids=torch.tensor([text], device=model.device), use_cache=False)).logits[0]


def _logp(model: Any, prompt: list[int], answer: list[int]) -> Tensor:
    """Log-probability of each token of an answer."""
    logits = _logits(model, prompt + answer)[len(prompt) - 1 : -1].float()
    return logits.log_softmax(-1).gather(-1, torch.tensor(answer, device=logits.device)[:, None])[:, 0]
