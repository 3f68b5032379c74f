"""Options of what samples answers."""

from __future__ import annotations

from pydantic import Field, field_validator

from hargo.config.options.base import Options


class SamplerOptions(Options):
    """What samples answers: in training, for pairs and in evaluation."""

    backend: str = Field("built-in", description="Name of the sampler; built-in computes in the process that trains.")

    @field_validator("backend")
    @classmethod
    def _known(cls, value: str) -> str:
        from hargo.config.registry import SAMPLERS  # which imports the options of methods

        SAMPLERS[value]  # ValueError where there is none
        return value
