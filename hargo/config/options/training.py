"""What every run of training takes: optimiser, schedule, budget, adapters; and pre-training and SFT."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, PositiveInt

from hargo.config.options.base import Names, Options

REPEAT = "Per task, how often each of its rows occurs in an epoch; once for a task not listed."


class OptimOptions(Options):
    """Optimiser and schedule, shared by every stage that trains.

    own: keys that mean something else to a method, so that it does not take over the study's value for all
    """

    own: ClassVar[frozenset[str]] = frozenset()
    #: what decides how long a run is, and what changes no number: a longer run goes on from a shorter one
    budget: ClassVar[frozenset[str]] = frozenset({"epochs", "max_steps", "steps"})
    free: ClassVar[frozenset[str]] = frozenset({"checkpoint_every", "keep_state"})

    learning_rate: float = Field(2e-5, gt=0, description="Peak learning rate.")
    schedule: Literal["constant", "linear", "cosine"] = Field("linear", description="Learning rate after the warm-up.")
    warmup: float = Field(0.03, ge=0, lt=1, description="Share of the steps spent warming up.")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's weight decay.")
    beta2: float = Field(0.999, gt=0, lt=1, description="AdamW's second-moment decay.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping by global norm.")
    tokens_per_pass: PositiveInt = Field(
        1024,
        description="Packed tokens per forward pass; more passes accumulate. Changes memory, not results.",
    )
    checkpoint_every: PositiveInt = Field(100, description="Optimiser steps between checkpoints.")
    keep_state: bool = Field(
        False,
        description="Keep a finished run's last checkpoint, so that a larger budget resumes from it. It takes three "
        "times the space of the model. With a schedule other than constant, set schedule_steps too.",
    )
    schedule_steps: PositiveInt | None = Field(
        None, description="Number of steps that the warm-up and schedule span; by default that of the run."
    )
    max_prompt_tokens: PositiveInt | None = Field(
        None, description="Leave out training prompts longer than this (counted in the log)."
    )

    @property
    def adapters(self) -> AdapterOptions | None:
        """The adapters that are trained in place of the model's own weights, if any."""
        return None


class EpochOptions(OptimOptions):
    """For runs that are measured in passes over their rows."""

    epochs: PositiveInt = Field(1, description="Passes over the training rows.")
    max_steps: PositiveInt | None = Field(None, description="Stop after this many steps, if that is sooner.")

    def planned(self, per_epoch: int) -> int:
        """Optimiser steps of a whole run, of which an epoch is `per_epoch`."""
        steps = self.epochs * per_epoch
        return steps if self.max_steps is None else min(steps, self.max_steps)


class PretrainOptions(OptimOptions):
    """Language modelling on the training texts; for models built from scratch."""

    steps: PositiveInt = Field(300, description="Optimiser steps.")
    batch_size: PositiveInt = Field(16, description="Documents per step.")
    learning_rate: float = Field(2e-3, gt=0, description="Peak learning rate.")
    repeat: dict[str, PositiveInt] = Field(default_factory=dict, description=REPEAT)

    def planned(self, per_epoch: int) -> int:
        """Optimiser steps of a whole run, however many are an epoch."""
        return self.steps


class SFTOptions(EpochOptions):
    """Supervised fine-tuning on the answers only."""

    epochs: PositiveInt = Field(2, description="Passes over the training rows.")
    repeat: dict[str, PositiveInt] = Field(default_factory=dict, description=REPEAT)
    batch_size: PositiveInt = Field(4, description="Rows per step.")
    average: Literal["tokens", "answers"] = Field(
        "tokens",
        description="What the loss averages over. tokens: long answers count more than short ones. "
        "answers: each answer counts the same, which helps tasks with short answers beside tasks with long ones.",
    )


class AdapterOptions(Options):
    """LoRA: low-rank matrices beside a model's own, which stay as they are."""

    rank: PositiveInt = Field(8, description="Rank of the adapters.")
    lora_alpha: PositiveInt = Field(16, description="Scale of the adapters, divided by the rank.")
    modules: Names = Field(["q_proj", "v_proj"], min_length=1, description="Linear layers that get adapters.")


class LoRAOptions(AdapterOptions, SFTOptions):
    """HPC-GPT: supervised fine-tuning of low-rank adapters, from the base model."""

    own: ClassVar[frozenset[str]] = frozenset({"learning_rate"})
    learning_rate: float = Field(2e-4, gt=0, description="Peak learning rate.")

    @property
    def adapters(self) -> AdapterOptions:
        return self
