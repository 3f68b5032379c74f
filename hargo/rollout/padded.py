"""Decoding of rows through transformers' own cache, for models whose attention cannot be exchanged.

Prompts of like length go together, padded on the left. A prompt is read once and its cache expanded to its samples;
finished rows leave the batch. Caches differ in what they can do: one that cannot repeat or select rows gets every
prompt as often as it has samples, and its rows stay to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hargo.rollout.inputs import known, last_logits
from hargo.rollout.sample import Completion, Request, Writing

#: names of the cache in what models take and return: it depends on the version of transformers
CACHES = ("cache", "past_key_values", "cache_params")
#: share of the rows that are still written at which the others are taken out: copying the cache costs time too
WORTH_REMOVING = 0.75


def complete(
    model: Any,
    requests: Sequence[Request],
    samples: int,
    temperature: float | None,
    stop: Sequence[int],
    pad: int | None = None,
    moves: bool = True,
) -> list[list[Completion]]:
    """Completions [len(requests)][samples] of prompts decoded together.

    pad: id to pad with, which is masked; one of a prompt where it is None or outside the vocabulary
    moves: whether the rows of the model's cache can be repeated and taken out
    """
    writing = Writing(requests, samples, temperature, stop)
    repeats = torch.arange(len(requests), device=model.device).repeat_interleave(samples)
    prompts = [request.prompt for request in requests]
    ids, mask = left_padded(prompts if moves else [prompts[i] for i in repeats.tolist()], pad, model)
    position = mask.sum(-1)
    logits, cache = _read(model, ids, mask, (mask.cumsum(-1) - 1).clamp(min=0), {})
    if moves and samples > 1:
        _select(cache, repeats)
        logits, mask, position = (x[repeats] for x in (logits, mask, position))
    rows = list(range(len(writing.answers)))  # the answer that each row of the batch writes
    for step in range(writing.longest):
        token = writing.draw(logits, rows, step)
        kept = [k for k, i in enumerate(rows) if not writing.answers[i].done]
        if not kept:
            break
        if moves and len(kept) <= WORTH_REMOVING * len(rows):
            chosen = torch.tensor(kept, device=model.device)
            _select(cache, chosen)
            rows = [rows[k] for k in kept]
            token, mask, position = (x[chosen] for x in (token, mask, position))
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=-1)
        logits, cache = _read(model, token.unsqueeze(-1), mask, position.unsqueeze(-1), cache)
        position = position + 1
    return writing.completions()


def left_padded(prompts: Sequence[list[int]], pad: int | None, model: Any) -> tuple[Tensor, Tensor]:
    """Ids and mask of the prompts, both [P, longest]."""
    width = max(map(len, prompts))
    if pad is None or not 0 <= pad < model.get_input_embeddings().weight.shape[0]:
        pad = prompts[0][0]
    ids = [[pad] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids, device=model.device), torch.tensor(mask, device=model.device)


def _read(
    model: Any, ids: Tensor, mask: Tensor, positions: Tensor, cache: dict[str, Any]
) -> tuple[Tensor, dict[str, Any]]:
    """Logits after the last token of each row [rows, V], and the cache under the name that the model has for it."""
    given = known(model, input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1)
    output = model(**given, **cache)
    if not cache:
        (name, *_) = known(model, **dict.fromkeys(CACHES)) or [None]
        if output.get(name) is None:
            raise ValueError(f"{type(model).__name__} returns no cache that it takes")
        cache = {name: output[name]}
    return last_logits(output), cache


def _select(named: dict[str, Any], rows: Tensor) -> None:
    """Make the rows of a cache those at the indices `rows`, of which one may come several times."""
    (cache,) = named.values()
    parts = [cache, *getattr(cache, "layers", [])]
    if all(hasattr(part, "batch_select_indices") for part in parts):
        cache.batch_select_indices(rows)
    else:
        cache.reorder_cache(rows)
