"""The sampler that is always there: it computes in this process, with the model's own weights.

Made for short answers to long prompts: every prompt is read once, whatever the number of samples, in the cheapest way
that is right for the model, see `hargo.rollout.ways`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from hargo.config.options import SamplerOptions
from hargo.engine.layout import Past
from hargo.engine.prompts import consecutive
from hargo.errors import UserError
from hargo.models.load import stop_ids
from hargo.rollout import packed
from hargo.rollout.request import Completion, Request, Rollout
from hargo.rollout.ways import Way, can_sample, way_of

__all__ = ["BuiltIn", "can_sample", "open_sampler"]


def open_sampler(options: SamplerOptions, model: Any, tokenizer: Any, batch_rows: int) -> BuiltIn:
    return BuiltIn(model, stop_ids(model, tokenizer), tokenizer.pad_token_id, batch_rows=batch_rows)


class BuiltIn:
    """A `hargo.rollout.Sampler`."""

    def __init__(
        self,
        model: Any,
        stop: Sequence[int],
        pad: int | None = None,
        *,
        batch_tokens: int = 16384,
        batch_rows: int = 64,
    ):
        """stop: ids that end an answer; batch_tokens, batch_rows: bounds on cache positions and rows decoded together

        pad: id to pad with, where the model's way of decoding pads; it is masked, so that None or any other serves
        """
        self.model, self.stop, self.pad = model, stop, pad
        self.batch_tokens, self.batch_rows = batch_tokens, batch_rows

    @torch.no_grad()
    def sample(
        self, requests: Sequence[Request], *, samples: int = 1, temperature: float | None = None, keep: int = 0
    ) -> Rollout:
        """See `hargo.rollout.Sampler`. The prompts are kept where all are read together, packed."""
        completions: list[list[Completion]] = [[Completion([], [], False) for _ in range(samples)] for _ in requests]
        past: Past | None = None
        way = way_of(self.model)
        if way is None:
            raise UserError(can_sample(self.model) or "")
        for chosen in self._batches(requests, samples, way):
            part = [requests[i] for i in chosen]
            if way.kind == "packed":
                kept = len(part) == len(requests) and sum(len(request.prompt) for request in part) <= keep
                rollout = packed.complete(self.model, part, samples, temperature, self.stop, kept)
                past = rollout.past and replace(rollout.past, order=chosen)
                answers = rollout.completions
            else:
                answers = way.complete(self.model, part, samples, temperature, self.stop, self.pad)
            for i, answer in zip(chosen, answers, strict=True):
                completions[i] = answer
        return Rollout(completions, past)

    def update(self, model: Any) -> None:
        self.model = model

    def close(self) -> None:
        """There is nothing to free: all that it holds is the caller's."""

    def _batches(self, requests: Sequence[Request], samples: int, way: Way) -> list[list[int]]:
        """Numbers of the requests that are decoded together, without those that request no token."""
        pending = [i for i, request in enumerate(requests) if request.limit > 0]
        if way.kind == "packed":  # nothing is padded: answers of like length go together, the longest decides the steps
            order = sorted(pending, key=lambda i: (requests[i].limit, len(requests[i].prompt)))
            costs = [len(requests[i].prompt) + samples * requests[i].limit for i in order]
            batches = consecutive(costs, self.batch_tokens, self.batch_rows // samples)
        else:
            order = sorted(pending, key=lambda i: len(requests[i].prompt))
            lengths = [(len(requests[i].prompt), requests[i].limit) for i in order]
            batches = _alike(lengths, samples, self.batch_tokens, self.batch_rows, way.pads)
        return [[order[k] for k in batch] for batch in batches]


def _alike(
    lengths: list[tuple[int, int]], samples: int, batch_tokens: int, batch_rows: int, pads: bool
) -> list[list[int]]:
    """Consecutive runs of (sorted) prompts within the bounds, by tokens of the prompt and most of its answer.

    A run ends where padding would exceed a third, or, unless prompts may be padded, where their length changes.
    """
    batches: list[list[int]] = []
    costs = [sum(both) for both in lengths]
    for index, cost in enumerate(costs):
        current = batches[-1] if batches else None
        if current is not None:
            rows = len(current) + 1
            longest = max(cost, *(costs[k] for k in current))
            padding = sum(longest - costs[k] for k in (*current, index))
            fits = rows * samples <= batch_rows and rows * samples * longest <= batch_tokens
            like = padding * 3 <= rows * longest if pads else lengths[current[0]][0] == lengths[index][0]
            if fits and like:
                current.append(index)
                continue
        batches.append([index])
    return batches
