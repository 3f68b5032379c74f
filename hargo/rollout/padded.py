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

from hargo.engine.inputs import known, last_logits, pad_left
from hargo.rollout.draw import Writing
from hargo.rollout.request import Completion, Request

#: names of the cache in what models take and return: it depends on the version of transformers
CACHES = ("cache", "past_key_values", "cache_params")
#: share of rows still being written at which the others are removed, since copying the cache takes time too
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
    repeats = [i for i in range(len(requests)) for _ in range(samples)]
    prompts = [request.prompt for request in requests]
    batch = _Batch(model, prompts if moves else [prompts[i] for i in repeats], pad)
    logits = batch.read_prompts()
    if moves and samples > 1:
        logits = logits[batch.select(repeats)]
    rows = list(range(len(writing.answers)))  # the answer that each row of the batch writes
    for step in range(writing.longest):
        token = writing.draw(logits, rows, step)
        kept = [k for k, i in enumerate(rows) if not writing.answers[i].done]
        if not kept:
            break
        if moves and len(kept) <= WORTH_REMOVING * len(rows):
            rows, token = [rows[k] for k in kept], token[batch.select(kept)]
        logits = batch.read(token)
    return writing.completions()


class _Batch:
    """Rows of tokens and the model's cache of them.

    ids, positions, mask: [rows, longest] of the prompts, padded on the left; mask: of what is read since then too, None
    where nothing is padded: state-space models take one with a prompt and not with what follows
    position: [rows], of the next token of each
    """

    def __init__(self, model: Any, prompts: Sequence[list[int]], pad: int | None):
        self.model = model
        rows = pad_left(model, prompts, pad)
        self.ids, self.positions, self.mask = rows.ids, rows.positions, rows.mask
        self.position = rows.positions[:, -1] + 1
        self.cache: dict[str, Any] = {}

    def _tensor(self, values: Sequence[Any]) -> Tensor:
        return torch.tensor(values, device=self.model.device)

    def read_prompts(self) -> Tensor:
        """Logits after each prompt [rows, V]."""
        output = self._call(self.ids, self.positions)
        names = known(self.model, **dict.fromkeys(CACHES))
        self.cache = {name: output[name] for name in names if output.get(name) is not None}
        if not self.cache:
            raise ValueError(f"{type(self.model).__name__} returns no cache that it accepts")
        return last_logits(output)

    def read(self, tokens: Tensor) -> Tensor:
        """Logits after one more token of each row, [rows] -> [rows, V]."""
        if self.mask is not None:
            self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=-1)
        output = self._call(tokens[:, None], self.position[:, None])
        self.position = self.position + 1
        return last_logits(output)

    def select(self, rows: Sequence[int]) -> Tensor:
        """Keep only the rows with these numbers, some perhaps several times; returns the numbers as a tensor."""
        chosen = self._tensor(rows)
        for cache in self.cache.values():
            # unlike the ways to repeat rows or to remove some, every kind of layer has this one
            cache.reorder_cache(chosen)
        self.position = self.position[chosen]
        if self.mask is not None:
            self.mask = self.mask[chosen]
        return chosen

    def _call(self, ids: Tensor, positions: Tensor) -> Any:
        inputs = known(
            self.model,
            input_ids=ids,
            attention_mask=self.mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
        )
        return self.model(**inputs, **self.cache)
