"""How a model can be sampled, tried out once: models differ in their attention, their masks and their caches.

A way is tried on two short prompts of different length with two samples each, which end at different times. The
log-probabilities that come with the samples are held against those of each text read alone. What a model cannot do
shows as an error or as a gap of the size of a real fault; the gap of rounding is far smaller, on any processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from hargo.models.attention import enable, packs
from hargo.rollout import grouped, padded, whole
from hargo.rollout.inputs import known
from hargo.rollout.sample import Completion, Request

#: share of a real fault that a way's gap may have: rounding has a thousandth of it in float32
TOLERANCE, TOLERANCE_OF_HALF = 0.02, 0.2

#: what a model may raise that is asked for what it cannot do
REFUSALS = (TypeError, ValueError, RuntimeError, KeyError, IndexError, AttributeError, AssertionError)


class Way(NamedTuple):
    """A way to decode.

    kind: `grouped`, `padded` or `whole`, the modules of this package
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
        if self.kind == "grouped":
            return grouped.complete(model, requests, samples, temperature, stop)
        if self.kind == "padded":
            return padded.complete(model, requests, samples, temperature, stop, pad, self.moves)
        return whole.complete(model, requests, samples, temperature, stop)


#: in the order of what they cost
WAYS = (
    Way("grouped"),
    Way("padded"),
    Way("padded", moves=False),
    Way("padded", pads=False),
    Way("padded", pads=False, moves=False),
    Way("whole", pads=False),
)

_FOUND: WeakKeyDictionary[Any, Way | str] = WeakKeyDictionary()


def way_of(model: Any) -> Way | None:
    """The cheapest way that gives what each text alone gives; None where there is none, see `can_sample`."""
    found = _found(model)
    return None if isinstance(found, str) else found


def can_sample(model: Any) -> str | None:
    """Why a model cannot be sampled; None where it can. Takes some passes over a few tokens, once a model."""
    found = _found(model)
    return found if isinstance(found, str) else None


def _found(model: Any) -> Way | str:
    if model not in _FOUND:
        with torch.no_grad():
            _FOUND[model] = _try_out(model)
    return _FOUND[model]


LONG, SHORT, ALSO_LONG = [5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [15, 16, 17, 18, 19, 20, 21]


def _try_out(model: Any) -> Way | str:
    name = type(model).__name__
    try:
        if _sees_what_comes(model):
            return f"{name} predicts a token from those that come after it: it is no causal language model"
    except REFUSALS as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return f"{name} cannot read a text of plain tokens: {first}"
    for way in WAYS:
        if way.kind == "grouped" and not (packs(model) and enable(model)):
            continue
        try:
            if _agrees(model, way):
                return way
        except REFUSALS:
            continue
    return f"{name} gives other probabilities while an answer is written than for the whole text"


def _sees_what_comes(model: Any) -> bool:
    """Whether changing the last token changes what is predicted before it by as much as an earlier one does."""
    text, cut = [*LONG, *SHORT], len(LONG)
    before = _logits(model, text)[:cut]
    later = (_logits(model, [*LONG, *SHORT[::-1]])[:cut] - before).abs().max()
    earlier = (_logits(model, [*LONG[::-1], *SHORT])[:cut] - before).abs().max()
    return bool(later > _tolerance(before) * earlier)


def _agrees(model: Any, way: Way) -> bool:
    """Whether log-probabilities of sampled answers are those of their texts read alone."""
    prompts = [LONG, SHORT] if way.pads else [LONG, ALSO_LONG]
    requests = [Request(prompt, limit, f"try/{limit}") for prompt, limit in zip(prompts, (2, 4), strict=True)]
    answers = way.complete(model, requests, 2, 1.0, stop=[])
    gap, fault = 0.0, 0.0
    for prompt, other, found in zip(prompts, prompts[::-1], answers, strict=True):
        for one in found:
            alone = _logp(model, prompt, one.ids)
            gap = max(gap, float((torch.tensor(one.logp, device=alone.device) - alone).abs().max()))
            # what an answer gets where it sees what it must not: another prompt, or what a shorter one is padded with
            for wrong in (other, [prompt[0]] * 4 + prompt):
                fault = max(fault, float((_logp(model, wrong, one.ids) - alone).abs().max()))
    return gap <= _tolerance(_logits(model, SHORT)) * fault


def _logits(model: Any, text: list[int]) -> Tensor:
    """[tokens, V] of a text alone, read in one piece."""
    return model(**known(model, input_ids=torch.tensor([text], device=model.device), use_cache=False)).logits[0]


def _logp(model: Any, prompt: list[int], answer: list[int]) -> Tensor:
    """Log-probability of each token of an answer."""
    logits = _logits(model, prompt + answer)[len(prompt) - 1 : -1].float()
    return logits.log_softmax(-1).gather(-1, torch.tensor(answer, device=logits.device)[:, None])[:, 0]


def _tolerance(logits: Tensor) -> float:
    return TOLERANCE if logits.dtype in (torch.float32, torch.float64) else TOLERANCE_OF_HALF
