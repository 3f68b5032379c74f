"""Generation for short answers to long prompts: every prompt is read once, whatever the number of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hargo.models.attention import Past, enable, packs
from hargo.rollout import grouped, padded
from hargo.rollout.sample import Completion, Request


@torch.no_grad()
def generate(
    model: Any,
    requests: Sequence[Request],
    *,
    stop: Sequence[int],
    pad: int,
    samples: int = 1,
    temperature: float | None = None,
    batch_tokens: int = 16384,
    batch_rows: int = 64,
    past: Past | None = None,
) -> list[list[Completion]]:
    """Complete every prompt `samples` times; `temperature=None` is greedy.

    stop: ids that end an answer; batch_tokens, batch_rows: bounds on cache positions and rows decoded together
    past: is given the prompts as they were read, with a gradient, if all are read together and not too long for it
    Returns completions [len(requests)][samples], in the order of the requests.
    """
    packed = packs(model) and enable(model)
    if packed:  # nothing is padded: answers of like length go together, since the longest one decides the steps
        order = sorted(range(len(requests)), key=lambda i: (requests[i].limit, len(requests[i].prompt)))
        costs = [len(requests[i].prompt) + samples * requests[i].limit for i in order]
        batches = _within(costs, samples, batch_tokens, batch_rows)
    else:
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt))
        costs = [len(requests[i].prompt) + requests[i].limit for i in order]
        batches = _alike(costs, samples, batch_tokens, batch_rows)
    results: list[list[Completion]] = [[] for _ in requests]
    for batch in batches:
        chosen = [order[k] for k in batch]
        part = [requests[i] for i in chosen]
        if packed:
            keep = past if past is not None and len(batches) == 1 and _length(part) <= past.most else None
            if keep is not None:
                keep.order = chosen
            found = grouped.complete(model, part, samples, temperature, stop, keep)
        else:
            found = padded.complete(model, part, samples, temperature, stop, pad)
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


def _alike(lengths: list[int], samples: int, batch_tokens: int, batch_rows: int) -> list[list[int]]:
    """Consecutive runs of (sorted) prompts within the bounds; a run ends where padding would exceed a third."""
    batches: list[list[int]] = []
    for index, length in enumerate(lengths):
        current = batches[-1] if batches else None
        if current is not None:
            rows = len(current) + 1
            padding = sum(length - lengths[k] for k in current)
            fits = rows * samples <= batch_rows and rows * samples * length <= batch_tokens
            if fits and padding * 3 <= rows * length:
                current.append(index)
                continue
        batches.append([index])
    return batches
