"""Generation for short answers to long prompts: every prompt is read once, whatever the number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hargo.errors import UserError
from hargo.models.attention import Past
from hargo.rollout import grouped
from hargo.rollout.sample import Completion, Request
from hargo.rollout.ways import can_sample, way_of


@torch.no_grad()
def generate(
    model: Any,
    requests: Sequence[Request],
    *,
    stop: Sequence[int],
    pad: int | None = None,
    samples: int = 1,
    temperature: float | None = None,
    batch_tokens: int = 16384,
    batch_rows: int = 64,
    past: Past | None = None,
) -> list[list[Completion]]:
    """Complete every prompt `samples` times; `temperature=None` is greedy.

    stop: ids that end an answer; batch_tokens, batch_rows: bounds on cache positions and rows decoded together
    pad: id to pad with, where the model's way of decoding pads; it is masked, so that None or any other serves
    past: is given the prompts as they were read, with a gradient, if all are read together and not too long for it
    Returns completions [len(requests)][samples], in the order of the requests. UserError where the model cannot be
    sampled, see `can_sample`.
    """
    results: list[list[Completion]] = [[Completion([], [], False) for _ in range(samples)] for _ in requests]
    wanted = [i for i, request in enumerate(requests) if request.limit > 0]
    way = way_of(model)
    if way is None:
        raise UserError(can_sample(model) or "")
    if way.kind == "grouped":  # nothing is padded: answers of like length go together, the longest decides the steps
        order = sorted(wanted, key=lambda i: (requests[i].limit, len(requests[i].prompt)))
        costs = [len(requests[i].prompt) + samples * requests[i].limit for i in order]
        batches = _within(costs, samples, batch_tokens, batch_rows)
    else:
        order = sorted(wanted, key=lambda i: len(requests[i].prompt))
        lengths = [(len(requests[i].prompt), requests[i].limit) for i in order]
        batches = _alike(lengths, samples, batch_tokens, batch_rows, way.pads)
    for batch in batches:
        chosen = [order[k] for k in batch]
        part = [requests[i] for i in chosen]
        whole = len(part) == len(requests)
        if way.kind == "grouped" and past is not None and whole and _length(part) <= past.most:
            past.order = chosen
            found = grouped.complete(model, part, samples, temperature, stop, past)
        else:
            found = way.complete(model, part, samples, temperature, stop, pad)
        for i, completions in zip(chosen, found, strict=True):
            results[i] = completions
    return results


def _length(requests: Sequence[Request]) -> int:
    return sum(len(request.prompt) for request in requests)


def _within(costs: list[int], samples: int, batch_tokens: int, batch_rows: int) -> list[list[int]]:
    """Consecutive runs of prompts within the bounds; `costs`: cache positions of a prompt and its answers."""
    batches: list[list[int]] = []
    room = 0
    for index, cost in enumerate(costs):
        if batches and cost <= room and (len(batches[-1]) + 1) * samples <= batch_rows:
            batches[-1].append(index)
            room -= cost
        else:
            batches.append([index])
            room = batch_tokens - cost
    return batches


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
