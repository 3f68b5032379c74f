"""Packing: a prompt once, its responses behind it, several such groups in one row, no padding.

    [ prefix | prompt_a | a_1 | a_2 | prompt_b | b_1 | b_2 ]

A response sees its prompt and itself; position ids of every response start where its prompt ends. What all prompts
of the row begin with, such as a system message, comes once; the last token of a response, which predicts nothing,
not at all. Costs P + G R tokens per group where the usual padded batch costs G (P + R). Exact: log-probabilities
and gradients are those of each sequence alone. The idea is published as Prefix Grouper (arXiv 2506.05433).

Where the rollout has read the prompts with a gradient (`Past`), a row holds the responses alone.

A model that cannot take such a row reads its responses apart (`hargo.engine.apart`), which costs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hargo.engine import apart
from hargo.engine.capability import for_attention, packs
from hargo.engine.layout import Continued, Layout, Past, common_prefix
from hargo.engine.logprob import log_probabilities


@dataclass(frozen=True)
class Group:
    """A prompt and its responses, as token ids. A demonstration is a group of one."""

    prompt: list[int]
    responses: list[list[int]]

    @property
    def tokens(self) -> int:
        return len(self.prompt) + sum(len(response) for response in self.responses)

    @property
    def longest(self) -> int:
        """Tokens of the prompt and its longest response."""
        return len(self.prompt) + max(map(len, self.responses), default=0)


@dataclass(frozen=True)
class Packed:
    """One row of N tokens with S scored ones.

    groups: what the row is made of
    input_ids, position_ids: [1, N]
    layout: which token may see which
    scored: [S], positions whose next-token distribution scores `targets` [S]
    slots: [S], place of each score in a flattened [R, width] matrix
    responses, width: R and T of that matrix
    most: tokens, padding included, that a model which reads every response apart may compute at a time
    """

    groups: list[Group]
    input_ids: Tensor
    position_ids: Tensor
    layout: Layout
    scored: Tensor
    targets: Tensor
    slots: Tensor
    responses: int
    width: int
    most: int | None = None


def plan(groups: Sequence[Group], tokens_per_pass: int, packed: bool = True) -> list[list[int]]:
    """Indices of the groups of each pass: first-fit by falling length. A longer group has a pass of its own.

    packed: a pass costs the tokens of its groups; otherwise its responses times the longest of them with its prompt
    """

    def cost(indices: list[int]) -> int:
        chosen = [groups[i] for i in indices]
        if packed:
            return sum(group.tokens for group in chosen)
        return sum(len(group.responses) for group in chosen) * max(group.longest for group in chosen)

    order = sorted(range(len(groups)), key=lambda i: (-(groups[i].tokens if packed else groups[i].longest), i))
    passes: list[list[int]] = []
    for index in order:
        fitting = (indices for indices in passes if cost([*indices, index]) <= tokens_per_pass)
        if (roomy := next(fitting, None)) is not None:
            roomy.append(index)
        else:
            passes.append([index])
    return [sorted(indices) for indices in passes]


def pack(groups: Sequence[Group], device: torch.device | str = "cpu", most: int | None = None) -> Packed:
    """Lay the groups out in one row. Every prompt needs a token, whose state predicts the first answer token.

    most: see `Packed`
    """
    prefix = common_prefix([group.prompt for group in groups])
    ids: list[int] = [*groups[0].prompt[:prefix]]
    positions: list[int] = [*range(prefix)]
    scored: list[int] = []
    targets: list[int] = []
    rows: list[int] = []
    columns: list[int] = []
    row = 0
    for group in groups:
        assert group.prompt, "a group without a prompt"
        ids += group.prompt[prefix:]
        positions += range(prefix, len(group.prompt))
        last_of_prompt = len(ids) - 1
        for response in group.responses:
            begin, length = len(ids), len(response)
            ids += response[:-1]
            positions += range(len(group.prompt), len(group.prompt) + length - 1)
            scored += [last_of_prompt, *range(begin, begin + length - 1)][:length]
            targets += response
            rows += [row] * length
            columns += range(length)
            row += 1
    width = max((len(r) for g in groups for r in g.responses), default=0)

    def long(values: list) -> Tensor:
        return torch.tensor(values, dtype=torch.long, device=device)

    sizes = tuple((len(g.prompt) - prefix, _sizes(g)) for g in groups)
    return Packed(
        groups=list(groups),
        input_ids=long([ids]),
        position_ids=long([positions]),
        layout=Layout(sizes, prefix),
        scored=long(scored),
        targets=long(targets),
        slots=long(rows) * width + long(columns),
        responses=row,
        width=width,
        most=most,
    )


def rows_of(groups: Sequence[Group]) -> list[range]:
    """Numbers of each group's responses among those of all."""
    ends = [*accumulate(len(group.responses) for group in groups)]
    return [range(end - len(group.responses), end) for group, end in zip(groups, ends, strict=True)]


def _sizes(group: Group) -> tuple[int, ...]:
    """Tokens of each response in a row: without its last."""
    return tuple(max(0, len(response) - 1) for response in group.responses)


@dataclass(frozen=True)
class Scores:
    """All [R, T]; 0 where `mask` is false, and all zeros where not requested.

    logp: log-probability of each response token at the given temperature, with gradient if enabled
    plain: the same at temperature 1, without gradient
    entropy: of the next-token distribution at that temperature, in nats, without gradient
    values: of the model's `value_head` on the state that predicts the token, with gradient if enabled
    """

    logp: Tensor
    mask: Tensor
    plain: Tensor
    entropy: Tensor
    values: Tensor


def score(
    model: Any,
    packed: Packed,
    temperature: float = 1.0,
    *,
    plain: bool = False,
    entropy: bool = False,
    values: bool = False,
    past: Past | None = None,
) -> Scores:
    """Log-probabilities of the packed responses. Logits are computed at scored positions only, in float32 or more.

    past: the prompts as the rollout read them with these weights; only the responses are then computed
    A model that cannot compute a packed row gets every response with a prompt of its own, which costs more.
    """
    measure = partial(log_probabilities, temperature=temperature, plain=plain, entropy=entropy)
    if past is not None:
        assert not values, "a critic reads whole rows"
        parts = _continue(model, packed, past)
        results = [measure(logits, targets) for logits, targets, _ in parts]
        return _scores(packed, torch.cat([part[2] for part in parts]), *map(torch.cat, zip(*results, strict=True)))
    if packs(model):
        where = {"position_ids": packed.position_ids, **for_attention(packed.layout, model)}
        logits, states = apart.read(model, packed.input_ids, packed.scored, values, **where)
        measures = measure(logits[0], packed.targets)
        return _scores(packed, packed.slots, *measures, None if states is None else model.value_head(states[0])[:, 0])

    def one(rows: apart.Rows) -> tuple[Tensor, ...]:
        logits, states = apart.read(model, rows.ids, rows.keep, values)
        worth = () if states is None else (model.value_head(states[rows.kept])[:, 0],)
        return (*measure(logits[rows.kept], rows.targets), *worth)

    texts = [(group.prompt, response) for group in packed.groups for response in group.responses]
    batches = [
        apart.lay_out(texts, numbers, packed.width, packed.input_ids.device)
        for numbers in apart.batches(texts, packed.most)
    ]
    again = len(batches) > 1 and torch.is_grad_enabled()
    scores = [checkpoint(one, part, use_reentrant=False) if again else one(part) for part in batches]
    return _scores(packed, torch.cat([part.slots for part in batches]), *map(torch.cat, zip(*scores, strict=True)))


def _continue(model: Any, packed: Packed, past: Past) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Logits, targets and slots: of first tokens, which the prompts predict, and of the others."""
    rows = rows_of(packed.groups)
    ids: list[int] = []
    positions: list[int] = []
    # (what predicts it, token, its slot)
    first: list[tuple[int, int, int]] = []
    later: list[tuple[int, int]] = []
    for place, number in enumerate(past.order):
        group = packed.groups[number]
        for row, response in zip(rows[number], group.responses, strict=True):
            ids += response[:-1]
            positions += range(len(group.prompt), len(group.prompt) + len(response) - 1)
            slots = range(row * packed.width, row * packed.width + len(response))
            first += [(place, *pair) for pair in zip(response[:1], slots[:1], strict=True)]
            later += zip(response[1:], slots[1:], strict=True)
    device = packed.input_ids.device
    which, target, slot = torch.tensor(first, device=device).T
    parts = [(past.logits[which], target, slot)]
    if ids:
        groups = [(size, _sizes(packed.groups[i])) for size, i in zip(past.layout.sizes, past.order, strict=True)]
        inputs, places = (torch.tensor([x], device=device) for x in (ids, positions))
        layout = Continued(tuple(groups), past.layout.prefix, layers=past.layers)
        logits = model(
            input_ids=inputs, position_ids=places, attention_mask=None, use_cache=False, layout=layout
        ).logits
        parts.append((logits[0], *torch.tensor(later, device=device).T))
    return parts


def _scores(
    packed: Packed, slots: Tensor, logp: Tensor, at_one: Tensor, spread: Tensor, worth: Tensor | None = None
) -> Scores:
    """Values of single tokens [S] in their places [R, T]."""

    def matrix(values: Tensor) -> Tensor:
        flat = values.new_zeros(packed.responses * packed.width)
        return flat.index_copy(0, slots, values).view(packed.responses, packed.width)

    mask = matrix(torch.ones_like(logp)).bool()
    worth = torch.zeros_like(at_one) if worth is None else worth
    return Scores(matrix(logp), mask, matrix(at_one), matrix(spread), matrix(worth))
