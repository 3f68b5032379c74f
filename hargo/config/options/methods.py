"""What each method takes beyond the shared options of a run."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from hargo.config.options.sampler import SamplerOptions
from hargo.config.options.training import AdapterOptions, EpochOptions


class PostTrainingOptions(EpochOptions):
    """What every method that starts from the SFT model shares."""

    learning_rate: float = Field(1e-6, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    train_limit: PositiveInt | None = Field(
        None, description="Keep at most so many training rows (stratified by task), the same for every method and seed."
    )
    prompts_per_step: PositiveInt = 4
    beta: float = Field(0.02, ge=0, description="Weight of the KL to the SFT model.")
    lora: AdapterOptions | None = Field(
        None, description="Train adapters alone; the SFT model is then this model without them, not a second copy."
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
        "exact: k3 times the importance ratio, on average the gradient of KL(pi || ref). Without effect at beta 0.",
    )
    sampler: SamplerOptions = Field(
        default_factory=SamplerOptions, description="What samples answers, for pairs and in evaluation too."
    )
    inner_passes: PositiveInt = Field(1, description="Optimiser steps on one batch of rollouts.")
    max_new_tokens: dict[str, PositiveInt] = Field(
        default_factory=dict, description="Per task, where it differs from the task's own bound."
    )


class RolloutOptions(RLOptions):
    """Clipped policy gradient on rollouts (RLOO)."""

    clip: float = Field(0.2, gt=0, lt=1, description="Clip range of the ratio.")
    shuffle_rewards: bool = Field(
        False, description="Control: permute the rewards within each group, so that nothing can be learned from them."
    )
    task_weights: dict[str, PositiveFloat] = Field(
        default_factory=dict,
        description="Control: how much a response of a task counts beside one of another, 1 where not named. "
        "The weights of a batch are scaled to sum 1.",
    )


class PolicyOptions(RolloutOptions):
    """Advantages divided by the deviation of the rewards (GRPO, REINFORCE++)."""

    eps: float = Field(1e-4, ge=0, description="Added to the standard deviation of the rewards.")


class DrGRPOOptions(RolloutOptions):
    """Dr.GRPO: no division by the deviation, constant length in the denominator."""

    length: PositiveInt = Field(64, description="L, the constant length that sums are divided by.")


class GSPOOptions(PolicyOptions):
    """GSPO: the ratio of a whole response, hence narrow clipping."""

    clip: float = Field(3e-4, gt=0, lt=1, description="Clip range below 1.")
    clip_high: float = Field(4e-4, gt=0, description="Clip range above 1.")


class DAPOOptions(PolicyOptions):
    """DAPO: wider clipping upwards, no KL, groups of equal rewards replaced."""

    own: ClassVar[frozenset[str]] = frozenset({"beta"})
    beta: float = Field(0.0, ge=0, description="Weight of the KL to the SFT model.")
    clip_high: float = Field(0.28, gt=0, description="Clip range above 1.")
    resample: int = Field(2, ge=0, description="How often a step samples more prompts to replace such groups.")


class PPOOptions(RolloutOptions):
    """PPO: a value head and generalised advantage estimates."""

    gamma: float = Field(1.0, gt=0, le=1, description="Discount per token.")
    lam: float = Field(0.95, ge=0, le=1, description="Lambda of the advantage estimates.")
    value_clip: float = Field(0.2, gt=0, description="Clip range of a value's change.")
    value_weight: float = Field(0.1, ge=0, description="Weight of the value loss.")


class PreferenceOptions(PostTrainingOptions):
    """DPO, and what the methods on pairs of answers share. How the pairs are sampled is said in `rl`."""

    own: ClassVar[frozenset[str]] = frozenset({"beta"})
    prompts_per_step: PositiveInt = Field(4, description="Pairs per step.")
    beta: float = Field(0.1, gt=0, description="Scale of the implicit reward.")


class SimPOOptions(PreferenceOptions):
    """SimPO: mean log-probabilities, a margin, no reference."""

    beta: float = Field(2.0, gt=0, description="Scale of the mean log-probability.")
    gamma: float = Field(1.0, ge=0, description="Margin between chosen and rejected.")


class KTOOptions(PreferenceOptions):
    """KTO: weights of desirable and undesirable answers."""

    desirable: float = Field(1.0, gt=0)
    undesirable: float = Field(1.0, gt=0)


class HargoOptions(PolicyOptions):
    """HARGO's weights over the responses of a group."""

    alpha: float = Field(0.3, ge=0, description="Confidence weight: the gain on an advantage is 1 + alpha c.")
    rho: float = Field(0.9, ge=0, lt=1, description="Decay of the running confidence baseline.")
    eps_w: float = Field(1e-6, gt=0, description="Below this sum of d a group gets equal weights.")
    frozen: float | None = Field(None, gt=0, lt=1, description="Control: a constant in place of the confidence.")
    weighting: Literal["full", "d", "c", "d+c", "d*c"] = Field(
        "full", description="full: HARGO. d: B1. c: B2. d+c and d*c: forms the paper argues against."
    )

    @model_validator(mode="after")
    def _check(self) -> HargoOptions:
        idle: dict[str, str] = {}
        if self.weighting not in ("full", "d+c"):
            idle["alpha"] = f"with weighting {self.weighting!r}"
        if self.weighting == "d":
            idle |= dict.fromkeys(("rho", "frozen"), "with weighting 'd'")
        elif self.frozen is not None:
            idle["rho"] = "beside `frozen`, which holds the confidence constant"
        for key, where in idle.items():
            if key in self.model_fields_set and getattr(self, key) is not None:
                raise ValueError(f"`{key}` has no effect {where}; take it out")
        return self
