"""Rewards of sampled answers: which are usable, which groups teach something, and what the log says about them."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hargo import tasks
from hargo.models.encode import Example
from hargo.rollout import Completion
from hargo.training.log import quantiles

logger = logging.getLogger(__name__)


def reward(examples: Sequence[Example], texts: Sequence[str], size: int) -> tuple[Tensor, Tensor]:
    """Rewards [P, size] of the answers to P examples, 0 where unusable, and which are usable: [P, size] bool.

    texts: [P * size], the answers to an example next to one another
    """
    rows = [example.row for example in examples for _ in range(size)]
    values = tasks.rewards([row.task for row in rows], texts, [row.answer for row in rows])
    rewards = torch.tensor([math.nan if v is None else v for v in values]).view(len(examples), size)
    valid = rewards.isfinite()
    if not valid.any(-1).all():
        lost = [examples[i].row.id for i in (~valid.any(-1)).nonzero().flatten().tolist()]
        logger.warning("no usable reward for any answer to %s", ", ".join(lost))
    return rewards.masked_fill(~valid, 0.0), valid


def spread(rewards: Tensor, valid: Tensor) -> Tensor:
    """Largest minus smallest usable reward of each group, -inf where there is none: [P]."""
    return rewards.masked_fill(~valid, -torch.inf).amax(-1) - rewards.masked_fill(~valid, torch.inf).amin(-1)


def figures(
    examples: Sequence[Example],
    completions: Sequence[Sequence[Completion]],
    rewards: Tensor,
    valid: Tensor,
    distributions: dict[str, Tensor],
) -> dict[str, Any]:
    """One step's figures: rewards and lengths per task, and how the [P, G] values in `distributions` are spread.

    None stands for a mean or deviation of too few rewards.
    """
    lengths = torch.tensor([[float(len(c.ids)) for c in group] for group in completions])
    summary: dict[str, Any] = {
        **_mean_and_std("reward", rewards[valid]),
        "zero_std": float((spread(rewards, valid) <= 0).float().mean()),
        "left_out": int((~valid).sum()),
        "truncated": sum(not c.ended for group in completions for c in group) / lengths.numel(),
        "length/mean": float(lengths.mean()),
    }
    for name in sorted({example.row.task for example in examples}):
        rows = [i for i, example in enumerate(examples) if example.row.task == name]
        summary |= _mean_and_std(f"reward/{name}", rewards[rows][valid[rows]])
        summary[f"length/{name}/mean"] = float(lengths[rows].mean())
    return summary | {f"dist/{key}": quantiles(values[valid].tolist()) for key, values in distributions.items()}


def _mean_and_std(key: str, values: Tensor) -> dict[str, float | None]:
    count = values.numel()
    return {
        f"{key}/mean": float(values.mean()) if count else None,
        f"{key}/std": float(values.std()) if count > 1 else None,
    }
