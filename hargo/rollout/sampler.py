"""Sampling of answers: the one place that training, pairs and evaluation get a sampler from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hargo.config.options import SamplerOptions
from hargo.config.registry import SAMPLERS
from hargo.config.tables import resolve
from hargo.rollout.request import Request, Rollout


class Sampler(Protocol):
    """Samples the model that it was opened with, or the one that it was last given."""

    def sample(
        self, requests: Sequence[Request], *, samples: int = 1, temperature: float | None = None, keep: int = 0
    ) -> Rollout:
        """Complete every prompt `samples` times; `temperature=None` is greedy.

        keep: most tokens that the prompts may have in all to be returned as they were read (`Rollout.past`). A sampler
            that does not compute in this process, with these weights, returns none.
        UserError where the model cannot be sampled or gives no distribution.
        """
        ...

    def update(self, model: Any) -> None:
        """The weights of `model` have changed: sample with them from now on."""
        ...

    def close(self) -> None:
        """Free what the sampler holds; it is not used again."""
        ...


def open_sampler(options: SamplerOptions, model: Any, tokenizer: Any, batch_rows: int = 64) -> Sampler:
    """The sampler that a study names, for `model`. The caller closes it.

    batch_rows: most answers that are written at a time, where the sampler has no measure of its own
    """
    return resolve(SAMPLERS[options.backend], "open_sampler")(options, model, tokenizer, batch_rows)


def can_sample(options: SamplerOptions, model: Any) -> str | None:
    """Why the sampler that a study names cannot sample `model`; None where it can."""
    return resolve(SAMPLERS[options.backend], "can_sample")(model)
