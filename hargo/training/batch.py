"""What one optimiser step learns from, where batches come from, and in which order examples are used."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from hargo.engine.capability import packs
from hargo.engine.layout import Past
from hargo.engine.pack import Group, Packed, pack, plan, rows_of
from hargo.methods.base import Method


@dataclass
class Batch:
    """What one optimiser step learns from: R responses in the order of their groups.

    passes: indices of the groups of each forward pass; packed: the row of each pass
    total_groups, total_tokens: groups and response tokens of all that the step learns from, the denominators of losses
        and figures; more than the groups here have where other processes compute the rest
    advantages: [R] or [R, T], weights: [R], for methods that learn from rewards
    old_values, returns: [R, T], for methods with a critic
    reference_point: see `Tokens`
    ref_logp: per pass, [responses of the pass, longest of them], log pi_ref at the sampling temperature
    sampled_logp: per response, what the rollout gave its tokens, compared with the first pass in the log
    past: the prompts as the rollout read them, for the first pass over a batch that is one pass
    metrics: the stage's figures for the log
    """

    groups: list[Group]
    passes: list[list[int]]
    packed: list[Packed]
    total_groups: int
    total_tokens: int
    advantages: Tensor | None = None
    weights: Tensor | None = None
    old_values: Tensor | None = None
    returns: Tensor | None = None
    reference_point: float = 0.0
    ref_logp: list[Tensor] | None = None
    sampled_logp: list[list[float]] | None = None
    past: Past | None = None
    metrics: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: list[Group], tokens_per_pass: int, model: Any) -> Batch:
        """The passes over `groups` that `model` makes, each of at most about `tokens_per_pass` tokens.

        The totals are those of `groups`: they are all that the step learns from.
        """
        passes = plan(groups, tokens_per_pass, packs(model))
        packed = [pack([groups[i] for i in indices], model.device, tokens_per_pass) for indices in passes]
        tokens = sum(len(response) for group in groups for response in group.responses)
        return cls(groups, passes, packed, total_groups=len(groups), total_tokens=tokens)

    def responses(self, number: int) -> list[int]:
        """Indices among all R responses of those in pass `number`."""
        rows = rows_of(self.groups)
        return [row for i in self.passes[number] for row in rows[i]]


class Batches(Protocol):
    """Where batches come from. `temperature` is that of the policy's log-probabilities."""

    method: Method
    temperature: float
    inner_passes: int

    def steps(self) -> int: ...

    def batch(self, step: int) -> Batch: ...


class Order:
    """Which examples step n uses: a fresh seeded permutation every epoch, the last batch of an epoch may be short."""

    def __init__(self, count: int, batch: int, seed: int, stage: int):
        self.count, self.batch, self.seed, self.stage = count, batch, seed, stage
        self.per_epoch = math.ceil(count / batch)

    def indices(self, step: int) -> list[int]:
        epoch, place = divmod(step, self.per_epoch)
        # seeds may be negative in a study, entropy may not
        permutation = np.random.default_rng([self.seed % 2**32, self.stage, epoch]).permutation(self.count)
        return permutation[place * self.batch : (place + 1) * self.batch].tolist()
