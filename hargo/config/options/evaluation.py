"""Greedy decoding and the figures computed from it."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from hargo.config.options.base import Location, Names, Options


class EvaluationOptions(Options):
    """Greedy decoding and the figures computed from it."""

    batch_size: PositiveInt = Field(32, description="Prompts decoded together.")
    max_new_tokens: dict[str, PositiveInt] = Field(
        default_factory=dict, description="Most new tokens per task, where it differs from the task's own bound."
    )
    tie: float = Field(1e-6, ge=0, le=1, description="Rewards closer than this are a tie in WinRate.")
    perturb: bool = Field(
        True, description="Also measure P(yes) on race rows with other names, order of declarations and sizes."
    )
    external: Location | None = Field(
        None, description="Folder with a copy of DataRaceBench that every model answers too; not used in training."
    )


class ReportOptions(Options):
    """What the report is about."""

    subject: str | None = Field(
        None, min_length=1, description="The run that the report is about; by default HARGO, else the first method."
    )
    references: Names = Field(
        [],
        description="The runs that every other run is compared with: WinRate with the first, and the subject in detail "
        "with the last; by default SFT and GRPO.",
    )
