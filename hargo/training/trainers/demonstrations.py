"""Supervised fine-tuning on the rows' own answers, each a group of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hargo.config.options import PretrainOptions, SFTOptions
from hargo.engine.pack import Group
from hargo.methods.base import Method
from hargo.models.encode import Example
from hargo.training.batch import Batch, Order
from hargo.training.job import Job


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


def train(job: Job) -> None:
    """Train on the answers of the job's examples."""
    examples = repeated(job.examples, job.options.repeat)
    descend(job, [Group(example.prompt, [example.answer]) for example in examples])


def descend(job: Job, groups: Sequence[Group]) -> None:
    """Train on these groups of one."""
    batches = Demonstrations(groups, job.options, job.method(), job.seed, job.model)
    job.descend(batches, max(group.tokens for group in groups))


def repeated(examples: list[Example], times: dict[str, int]) -> list[Example]:
    """Every example as often as its task says, once where it says nothing."""
    return [example for example in examples for _ in range(times.get(example.row.task, 1))]
