"""A trainer without gradient and its method, as somebody else may bring them."""

from __future__ import annotations

from pathlib import Path

import torch

from hargo.config.options import OptimOptions
from hargo.io import write_jsonl
from hargo.training.job import Job


class NoiseOptions(OptimOptions):
    """How often noise is added."""

    members: int = 3


class Method:
    """There is no loss."""

    def __init__(self, options: NoiseOptions) -> None:
        self.options = options


def train(job: Job) -> None:
    """Add noise to the weights `members` times, with a record of each."""

    def work(folder: Path) -> None:
        records = []
        for number in range(job.options.members):
            generator = torch.Generator().manual_seed(1000 * job.seed + number)
            with torch.no_grad():
                for parameter in job.model.parameters():
                    parameter.add_(1e-3 * torch.randn(parameter.shape, generator=generator))
            records.append({"step": number + 1, "loss": 0.0, "tokens": 0, "seconds": 0.0})
        write_jsonl(folder / "metrics.jsonl", records)

    job.perform(work, job.options.members)
