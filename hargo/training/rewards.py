"""Rewards of sampled answers: which are usable, which groups teach something, and what the log says of them."""

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


def usable(reward: float | None) -> bool:
    """Whether a reward is a finite number; anything else leaves its response out."""
    return reward is not None and math.isfinite(reward)


def reward(examples: Sequence[Example], texts: Sequence[str], size: int) -> tuple[Tensor, Tensor]:
    """Rewards [P, size] of the answers to P examples, 0 where unusable, and which are usable: [P, size] bool.

    texts: [P * size], the answers to an example next to one another
    """
    rewards = torch.full((len(examples), size), math.nan)
    for name in sorted({example.row.task for example in examples}):
        rows = [i for i, example in enumerate(examples) if example.row.task == name]
        outputs = [texts[i * size + k] for i in rows for k in range(size)]
        references = [examples[i].row.answer for i in rows for _ in range(size)]
        values = tasks.load(name).reward(outputs, references)
        rewards[rows] = torch.tensor([math.nan if v is None else float(v) for v in values]).view(len(rows), size)
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
    found: dict[str, Any] = {
        **_mean_and_std("reward", rewards[valid]),
        "zero_std": float((spread(rewards, valid) <= 0).float().mean()),
        "left_out": int((~valid).sum()),
        "truncated": sum(not c.ended for group in completions for c in group) / lengths.numel(),
        "length/mean": float(lengths.mean()),
    }
    for name in sorted({example.row.task for example in examples}):
        rows = [i for i, example in enumerate(examples) if example.row.task == name]
        found |= _mean_and_std(f"reward/{name}", rewards[rows][valid[rows]])
        found[f"length/{name}/mean"] = float(lengths[rows].mean())
    return found | {f"dist/{key}": quantiles(values[valid].tolist()) for key, values in distributions.items()}


def _mean_and_std(key: str, values: Tensor) -> dict[str, float | None]:
    count = values.numel()
    return {
        f"{key}/mean": float(values.mean()) if count else None,
        f"{key}/std": float(values.std()) if count > 1 else None,
    }
