"""Demonstrations for SFT, documents for pre-training: each is a group of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hargo.config.options import PretrainOptions, SFTOptions
from hargo.methods.base import Method
from hargo.training.batches.base import Batch, Order
from hargo.training.pack import Group


class Demonstrations:
    """SFT and pre-training: each example is a group of one."""

    temperature = 1.0
    inner_passes = 1

    def __init__(
        self,
        groups: Sequence[Group],
        options: SFTOptions | PretrainOptions,
        method: Method,
        seed: int,
        model: Any,
    ):
        self.groups, self.options, self.method, self.model = groups, options, method, model
        self.order = Order(len(groups), options.batch_size, seed, stage=0)

    def steps(self) -> int:
        return self.options.planned(self.order.per_epoch)

    def batch(self, step: int) -> Batch:
        groups = [self.groups[i] for i in self.order.indices(step)]
        return Batch.of(groups, self.options.tokens_per_pass, self.model)
