"""Prompts read to their end, several together: what comes next after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hargo.engine import apart
from hargo.engine.capability import capability, for_attention
from hargo.engine.inputs import known, last_logits, pad_left
from hargo.engine.layout import Layout, common_prefix

#: tokens of a packed row of prompts, above which a longer one saves nothing more and a dense mask would be large
ROW_TOKENS = 4096


@dataclass(frozen=True)
class PromptRow:
    """Prompts in one row, what they all begin with once.

    ids, positions: [N]; last: where in the row each prompt ends
    """

    ids: list[int]
    positions: list[int]
    layout: Layout
    last: list[int]


def in_a_row(prompts: Sequence[list[int]]) -> PromptRow:
    """Lay prompts, of a token or more each, out in one row."""
    prefix = common_prefix(prompts)
    layout = Layout(tuple((len(prompt) - prefix, ()) for prompt in prompts), prefix)
    return PromptRow(
        ids=[*prompts[0][:prefix], *(token for prompt in prompts for token in prompt[prefix:])],
        positions=[*range(prefix), *(k for prompt in prompts for k in range(prefix, len(prompt)))],
        layout=layout,
        last=(torch.tensor(layout.sizes).cumsum(0) + prefix - 1).tolist(),
    )


def next_logits(model: Any, prompts: Sequence[list[int]], pad: int | None = None) -> Tensor:
    """Logits of the token after each prompt, [P, V]: the prompts packed, else padded on the left, else one by one.

    pad: see `pad_left`
    """
    can = capability(model)
    if can.packs:
        parts = consecutive([len(prompt) for prompt in prompts], ROW_TOKENS)
        return torch.cat([_packed(model, [prompts[i] for i in part]) for part in parts])
    if can.pads:
        return _padded(model, prompts, pad)
    return torch.cat([_padded(model, [prompt], pad) for prompt in prompts])


def _packed(model: Any, prompts: Sequence[list[int]]) -> Tensor:
    row = in_a_row(prompts)
    ids, positions = (torch.tensor([values], device=model.device) for values in (row.ids, row.positions))
    last = torch.tensor(row.last, device=model.device)
    logits, _ = apart.read(model, ids, last, states=False, position_ids=positions, **for_attention(row.layout, model))
    return logits[0]


def _padded(model: Any, prompts: Sequence[list[int]], pad: int | None) -> Tensor:
    rows = pad_left(model, prompts, pad)
    more = known(model, attention_mask=rows.mask, position_ids=rows.positions, use_cache=False, logits_to_keep=1)
    return last_logits(model(input_ids=rows.ids, **more))


def consecutive(costs: Sequence[int], room: int, most: int | None = None) -> list[list[int]]:
    """Runs of consecutive indices whose costs are at most `room` together, and of at most `most` indices if given.

    An index that costs more is by itself.

    >>> consecutive([3, 3, 9, 1, 1, 1], 6, 2)
    [[0, 1], [2], [3, 4], [5]]
    """
    parts: list[list[int]] = []
    left = 0
    for index, cost in enumerate(costs):
        if parts and cost <= left and (most is None or len(parts[-1]) < most):
            parts[-1].append(index)
            left -= cost
        else:
            parts.append([index])
            left = room - cost
    return parts
