"""Decoding without padding or copies: the answers being written are one packed row, each group its own keys.

Prompts are read in one row, what they all begin with once. A group keeps the keys and values of its prompt and of
every answer token behind them; an answer attends to its prompt and to its own tokens. A finished answer is no longer in
the row, and nothing has to be moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hargo.engine.layout import Attends, How, Past, additive, sdpa
from hargo.engine.linear import few_rows
from hargo.engine.prompts import in_a_row
from hargo.rollout.draw import Writing
from hargo.rollout.request import Request, Rollout

GROWTH = 32  # tokens of every answer that room is made for at a time


def complete(
    model: Any,
    requests: Sequence[Request],
    samples: int,
    temperature: float | None,
    stop: Sequence[int],
    keep: bool = False,
) -> Rollout:
    """Completions [len(requests)][samples] of prompts decoded together.

    keep: whether the prompts are read with a gradient and returned too
    """
    prompts = Prompts([request.prompt for request in requests], samples, keep)
    writing = Writing(requests, samples, temperature, stop)
    answers = writing.answers
    with torch.set_grad_enabled(keep):
        read = _logits(model, prompts.row.ids, prompts.row.positions, prompts, keep=prompts.row.last)
    past = Past([*range(len(requests))], prompts.row.layout, prompts.layers, read) if keep else None
    logits = read.detach().repeat_interleave(samples, 0)
    alive = list(range(len(answers)))
    with few_rows(model, writing.longest):
        for step in range(writing.longest):
            token = writing.draw(logits, alive, step)
            token = token[[k for k, i in enumerate(alive) if not answers[i].done]]
            alive = [i for i in alive if not answers[i].done]
            if not alive:
                break
            for number, group in enumerate(prompts.groups):
                group.rows = [k for k in group.rows if not answers[number * samples + k].done]
            row = Answers(prompts.groups)
            logits = _logits(model, token.tolist(), row.positions(), row, keep=None)
    return Rollout(writing.completions(), past)


def _logits(
    model: Any, ids: Sequence[int], positions: Sequence[int], layout: Attends, keep: Sequence[int] | None
) -> Tensor:
    """Logits of a row's tokens [N, V], or of those in `keep`."""
    output = model(
        input_ids=torch.tensor([ids]),
        position_ids=torch.tensor([positions]),
        attention_mask=None,
        use_cache=False,
        layout=layout,
        logits_to_keep=0 if keep is None else torch.tensor(keep),
    )
    logits = output.logits[0]
    # a model that does not know `logits_to_keep` gives those of the whole row
    return logits if keep is None or len(logits) == len(keep) else logits[list(keep)]


@dataclass
class _Group:
    """Keys and values of a prompt and its answers.

    store: per layer that attends, keys [1, key heads, room, width] and values, whose width may be another
    owner: [room], 0 for the prompt, else the answer's number from 1
    position: [room], of each key in its text; used: keys there; rows: answers being written, from 0
    """

    prompt: int
    rows: list[int]
    store: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    owner: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    position: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    used: int = 0

    def make_room(self) -> None:
        """Room for one more token of every answer being written, in steps of `GROWTH`."""
        if self.used + len(self.rows) <= len(self.owner):
            return
        more = GROWTH * len(self.rows)
        self.owner = torch.cat([self.owner, self.owner.new_zeros(more)])
        self.position = torch.cat([self.position, self.position.new_zeros(more)])
        for layer, (keys, values) in self.store.items():
            self.store[layer] = self._longer(keys, more), self._longer(values, more)

    def _longer(self, old: Tensor, more: int) -> Tensor:
        new = old.new_empty(*old.shape[:2], old.shape[2] + more, old.shape[3])
        new[:, :, : self.used] = old[:, :, : self.used]
        return new


class Prompts:
    """The row of all prompts, and where their keys and values are stored as they are read.

    layers: keys and values of the row by layer, with their gradient, where they are kept
    """

    def __init__(self, prompts: Sequence[list[int]], samples: int, keep: bool):
        self.keep = keep
        self.layers: list[tuple[Tensor, Tensor]] = []
        self.row = in_a_row(prompts)
        self.groups = [_Group(len(prompt), list(range(samples))) for prompt in prompts]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: How) -> Tensor:
        if self.keep:
            self.layers.append((key, value))
        layout = self.row.layout
        sizes = [layout.prefix, *layout.sizes]
        (first_k, *keys), (first_v, *values) = (x.detach().split(sizes, dim=2) for x in (key, value))
        for group, k, v in zip(self.groups, keys, values, strict=True):
            if layer in group.store:
                raise ValueError(f"layer {layer} attends twice")
            group.store[layer] = torch.cat([first_k, k], dim=2), torch.cat([first_v, v], dim=2)
        return layout.attend(layer, query, key, value, how)


class Answers:
    """One token of every answer being written."""

    def __init__(self, groups: Sequence[_Group]):
        self.groups = [group for group in groups if group.rows]
        self.masks: dict[tuple[int, int | None], Tensor] = {}
        for group in self.groups:
            if not len(group.owner):
                group.used = group.prompt
                group.owner = torch.zeros(group.prompt, dtype=torch.long)
                group.position = torch.arange(group.prompt)
            group.make_room()
            at = slice(group.used, group.used + len(group.rows))
            group.owner[at] = torch.tensor(group.rows) + 1
            group.position[at] = self._next(group)
            group.used += len(group.rows)

    def _next(self, group: _Group) -> int:
        """Where in its text the new token of every answer stands: all have written as many."""
        return group.prompt if group.used == group.prompt else int(group.position[group.used - 1]) + 1

    def positions(self) -> list[int]:
        return [int(group.position[group.used - 1]) for group in self.groups for _ in group.rows]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: How) -> Tensor:
        done: list[Tensor] = []
        sizes = [len(group.rows) for group in self.groups]
        parts = (x.split(sizes, dim=2) for x in (query, key, value))
        for number, (group, q, k, v) in enumerate(zip(self.groups, *parts, strict=True)):
            new, seen = slice(group.used - len(group.rows), group.used), slice(group.used)
            keys, values = group.store[layer]
            keys[:, :, new], values[:, :, new] = k, v
            # heads that share a key head as rows of one head: fewer, larger products
            folded = q.reshape(1, keys.shape[1], -1, q.shape[3])
            mask = self._mask(number, group, how.window, folded)
            output = sdpa(folded, keys[:, :, seen], values[:, :, seen], mask, how)
            done.append(output.reshape(*q.shape[:3], values.shape[3]))
        return torch.cat(done, dim=2)

    def _mask(self, number: int, group: _Group, window: int | None, like: Tensor) -> Tensor:
        """What to add to the scores of a group's answers: [answers, keys], once for every head of `like`'s rows."""
        kind = (number, window)
        if kind not in self.masks:
            owner, position = group.owner[: group.used], group.position[: group.used]
            visible = (owner == 0) | (owner == torch.tensor(group.rows)[:, None] + 1)
            if window is not None:
                visible &= position > position[-1] - window
            self.masks[kind] = additive(visible, like).repeat(like.shape[2] // len(group.rows), 1)
        return self.masks[kind]
