"""Where rows come from and how they are split."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from hargo.config.options.base import BelongsTo, Location, Names, Options, Seed


class EmbeddedOptions(Options):
    """Sizes of the generated data set."""

    seed: Seed = Field(0, description="Seed of the generator.")
    kernels: PositiveInt = Field(1200, description="Training kernels per language, half of them racy.")
    eval_kernels: PositiveInt = Field(160, description="Evaluation kernels per language.")
    families: Names = Field([], description="Kernel families to draw from; all if none is given.")
    held_out_families: int = Field(3, ge=0, description="Kernel families per language that occur in evaluation only.")
    held_out_share: float = Field(0.25, ge=0, le=1, description="Share of evaluation kernels from those families.")
    systems: PositiveInt | None = Field(None, description="Systems of the results table to ask about; all by default.")
    mlperf: PositiveInt = Field(800, description="Training questions on benchmark results.")
    eval_mlperf: PositiveInt = Field(120, description="Evaluation questions on benchmark results.")
    plp: PositiveInt = Field(400, description="Training questions on data sets and models.")
    eval_plp: PositiveInt = Field(60, description="Evaluation questions on data sets and models.")


class ColumnOptions(Options):
    """How the columns of one's own rows are called."""

    prompt: str = Field("prompt", min_length=1)
    answer: str = Field("answer", min_length=1)
    task: str = Field("task", min_length=1, description="Not needed where the study has one task.")
    id: str = Field("id", min_length=1, description="Optional: unique names of rows.")
    family: str = Field("family", min_length=1, description="Optional: rows of one family succeed or fail together.")
    split: str = Field("split", min_length=1, description="Optional: train or eval, for the protocol given.")


class DataOptions(Options):
    """Where rows come from and how they are split."""

    source: str = Field(
        "embedded", description="A data source: embedded, jsonl (rows of your own), hpcgpt, hub or drb (DataRaceBench)."
    )
    path: Annotated[Location | None, BelongsTo("source", ("hpcgpt", "drb", "hub", "jsonl"), others=("embedded",))] = (
        Field(None, description="File or folder of the sources jsonl, hpcgpt and drb, or hub id of the source hub.")
    )
    revision: Annotated[str | None, BelongsTo("source", ("hub",), others=("embedded", "hpcgpt", "drb", "jsonl"))] = (
        Field(None, min_length=1, description="Hub revision to pin.")
    )
    protocol: Literal["paper", "strict", "given"] = Field(
        "paper",
        description="paper: seeded 9:1 split per file, rows untouched. strict: cleaned, scrubbed, near-duplicate "
        "groups never split. given: the source says which rows are for evaluation.",
    )
    split_seed: int = Field(0, ge=0, le=2**32 - 1, description="Seed of the split.")
    eval_fraction: Annotated[float, BelongsTo("protocol", ("paper", "strict"))] = Field(
        0.1, gt=0, lt=1, description="Share of rows for evaluation."
    )
    train_limit: PositiveInt | None = Field(
        None, description="Keep at most this many training rows (stratified by task), which sets the size of a study."
    )
    rl_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Share of the training rows of each task that only the methods after SFT learn from, while SFT and "
        "pre-training learn from the others. By default all learn from all of them.",
    )
    eval_limit: PositiveInt | None = Field(None, description="Keep at most this many evaluation rows.")
    columns: Annotated[ColumnOptions, BelongsTo("source", ("jsonl",), others=("embedded", "hpcgpt", "drb", "hub"))] = (
        ColumnOptions()
    )
    embedded: Annotated[EmbeddedOptions, BelongsTo("source", ("embedded",))] = EmbeddedOptions()

    @model_validator(mode="after")
    def _check(self) -> DataOptions:
        if self.source in ("hpcgpt", "hub", "drb", "jsonl") and not self.path:
            raise ValueError(f"source {self.source!r} needs `path`")
        if self.protocol == "given" and self.source in ("hpcgpt", "hub", "drb"):
            raise ValueError(f"protocol 'given' needs a source with a split of its own, which {self.source!r} lacks")
        return self
