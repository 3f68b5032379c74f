"""What each method takes beyond the shared options of a run."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from hargo.config.options.sampler import SamplerOptions
from hargo.config.options.training import AdapterOptions, EpochOptions


class PostTrainingOptions(EpochOptions):
    """What every method that starts from the SFT model shares."""

    learning_rate: float = Field(1e-6, gt=0, description="Peak learning rate.")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="Learning rate after the warm-up."
    )
    train_limit: PositiveInt | None = Field(
        None,
        description="Keep at most this many training rows (stratified by task), the same for every method and seed.",
    )
    prompts_per_step: PositiveInt = Field(4, description="Prompts per step.")
    beta: float = Field(0.02, ge=0, description="Weight of the KL to the SFT model.")
    lora: AdapterOptions | None = Field(
        None, description="Train only adapters; the SFT model is then this model without them, not a second copy."
    )

    @property
    def adapters(self) -> AdapterOptions | None:
        return self.lora


class RLOptions(PostTrainingOptions):
    """What methods that learn from rewards share. Methods on pairs take what concerns them; the pairs take the rest."""

    group_size: int = Field(4, ge=2, description="G, responses per prompt.")
    temperature: float = Field(0.6, gt=0, description="T, sampling temperature.")
    kl: Literal["k3", "exact"] = Field(
        "k3",
        description="k3: differentiated as in GRPO's paper, which on average is the gradient of KL(ref || pi). "
        "exact: k3 times the importance ratio, on average the gradient of KL(pi || ref). It has no effect "
        "when beta is 0.",
    )
    sampler: SamplerOptions = Field(
        default_factory=SamplerOptions, description="The sampler, which is also used for pairs and in evaluation."
    )
    inner_passes: PositiveInt = Field(1, description="Optimiser steps on one batch of rollouts.")
    max_new_tokens: dict[str, PositiveInt] = Field(
        default_factory=dict, description="Most new tokens per task, where it differs from the task's own bound."
    )


class RolloutOptions(RLOptions):
    """Clipped policy gradient on rollouts (RLOO)."""

    clip: float = Field(0.2, gt=0, lt=1, description="Clip range of the ratio.")
    shuffle_rewards: bool = Field(
        False, description="Control: permute the rewards within each group, so that nothing can be learned from them."
    )
    task_weights: dict[str, PositiveFloat] = Field(
        default_factory=dict,
        description="Control: how much a response of each task counts relative to the others; 1 for a task not listed. "
        "The weights of a batch are scaled to sum to 1.",
    )


class PolicyOptions(RolloutOptions):
    """Advantages divided by the deviation of the rewards (GRPO, REINFORCE++)."""

    eps: float = Field(1e-4, ge=0, description="Added to the standard deviation of the rewards.")


class PreferenceOptions(PostTrainingOptions):
    """DPO, and what the methods on pairs of answers share. How the pairs are sampled is set in `rl`."""

    own: ClassVar[frozenset[str]] = frozenset({"beta"})
    prompts_per_step: PositiveInt = Field(4, description="Pairs per step.")
    beta: float = Field(0.1, gt=0, description="Scale of the implicit reward.")
