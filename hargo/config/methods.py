"""The methods: what each takes beyond the options that it shares with others, and the table of their names."""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple

from pydantic import Field, PositiveInt, model_validator

from hargo.config import options as o
from hargo.config.options import PolicyOptions, PreferenceOptions, RolloutOptions
from hargo.config.registry import TRAINERS, MethodSpec
from hargo.config.tables import Table, of_type, require_module
from hargo.errors import UserError


class DrGRPOOptions(RolloutOptions):
    """Dr.GRPO: no division by the deviation, constant length in the denominator."""

    length: PositiveInt = Field(64, description="L, the constant length that sums are divided by.")


class GSPOOptions(PolicyOptions):
    """GSPO: the ratio of a whole response, and therefore narrow clipping."""

    clip: float = Field(3e-4, gt=0, lt=1, description="Clip range below 1.")
    clip_high: float = Field(4e-4, gt=0, description="Clip range above 1.")


class DAPOOptions(PolicyOptions):
    """DAPO: wider clipping upwards, no KL, groups of equal rewards replaced."""

    own: ClassVar[frozenset[str]] = frozenset({"beta"})
    beta: float = Field(0.0, ge=0, description="Weight of the KL to the SFT model.")
    clip_high: float = Field(0.28, gt=0, description="Clip range above 1.")
    resample: int = Field(
        2, ge=0, description="How many times a step may sample more prompts to replace groups of equal rewards."
    )


class PPOOptions(RolloutOptions):
    """PPO: a value head and generalised advantage estimates."""

    gamma: float = Field(1.0, gt=0, le=1, description="Discount per token.")
    lam: float = Field(0.95, ge=0, le=1, description="Lambda of the advantage estimates.")
    value_clip: float = Field(0.2, gt=0, description="Clip range of a value's change.")
    value_weight: float = Field(0.1, ge=0, description="Weight of the value loss.")


class SimPOOptions(PreferenceOptions):
    """SimPO: mean log-probabilities, a margin, no reference."""

    beta: float = Field(2.0, gt=0, description="Scale of the mean log-probability.")
    gamma: float = Field(1.0, ge=0, description="Margin between chosen and rejected.")


class KTOOptions(PreferenceOptions):
    """KTO: weights of desirable and undesirable answers."""

    desirable: float = Field(1.0, gt=0, description="Weight of the better answers.")
    undesirable: float = Field(1.0, gt=0, description="Weight of the worse answers.")


class HargoOptions(PolicyOptions):
    """HARGO's weights over the responses of a group."""

    alpha: float = Field(0.3, ge=0, description="Confidence weight: the gain on an advantage is 1 + alpha c.")
    rho: float = Field(0.9, ge=0, lt=1, description="Decay of the running confidence baseline.")
    eps_w: float = Field(1e-6, gt=0, description="A group whose d add up to less than this gets equal weights.")
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
            idle["rho"] = "together with `frozen`, which holds the confidence constant"
        for key, where in idle.items():
            if key in self.model_fields_set and getattr(self, key) is not None:
                raise ValueError(f"`{key}` has no effect {where}; remove it")
        return self


_SFT = "hargo.methods.sft"
_HARGO = ("hargo.methods.hargo", HargoOptions)


def _method(name: str, where: str) -> MethodSpec:
    spec = of_type(where, MethodSpec)
    if not (isinstance(spec.options, type) and issubclass(spec.options, o.OptimOptions)):
        raise UserError(f"the options of {where} are no class derived from those in hargo.config.options")
    TRAINERS[spec.trainer]  # UserError where there is none
    require_module(spec.module)
    return spec


#: method name -> module holding `Method`; several names may share one module with other presets
_OWN: dict[str, MethodSpec] = {
    "pretrain": MethodSpec("pre-training", _SFT, o.PretrainOptions, trainer="texts", start="base", kind="groundwork"),
    "sft": MethodSpec("SFT", _SFT, o.SFTOptions, trainer="demonstrations", start="base"),
    "hpc_gpt": MethodSpec("HPC-GPT", "hargo.methods.hpc_gpt", o.LoRAOptions, trainer="demonstrations", start="base"),
    "ppo": MethodSpec("PPO", "hargo.methods.ppo", PPOOptions),
    "dpo": MethodSpec("DPO", "hargo.methods.dpo", PreferenceOptions, trainer="pairs"),
    "grpo": MethodSpec("GRPO", "hargo.methods.grpo", PolicyOptions),
    "dr_grpo": MethodSpec("Dr.GRPO", "hargo.methods.dr_grpo", DrGRPOOptions),
    "simpo": MethodSpec("SimPO", "hargo.methods.simpo", SimPOOptions, trainer="pairs"),
    "kto": MethodSpec("KTO", "hargo.methods.kto", KTOOptions, trainer="pairs"),
    "hargo": MethodSpec("HARGO", *_HARGO),
    "rloo": MethodSpec("RLOO", "hargo.methods.rloo", RolloutOptions),
    "dapo": MethodSpec("DAPO", "hargo.methods.dapo", DAPOOptions),
    "gspo": MethodSpec("GSPO", "hargo.methods.gspo", GSPOOptions),
    "reinforce_pp": MethodSpec("REINFORCE++", "hargo.methods.reinforce_pp", PolicyOptions),
    "b1": MethodSpec("B1: d only", *_HARGO, {"weighting": "d"}, kind="ablation"),
    "b2": MethodSpec("B2: c only", *_HARGO, {"weighting": "c"}, kind="ablation"),
    "d_plus_c": MethodSpec("d + αc", *_HARGO, {"weighting": "d+c"}, kind="ablation"),
    "d_times_c": MethodSpec("d × c", *_HARGO, {"weighting": "d*c"}, kind="ablation"),
    "shuffled": MethodSpec("control: rewards shuffled", *_HARGO, {"shuffle_rewards": True}, kind="control"),
    "frozen_c": MethodSpec("control: c frozen", *_HARGO, {"frozen": 0.5}, kind="control"),
    "oracle": MethodSpec(
        "control: weights by task",
        "hargo.methods.grpo",
        PolicyOptions,
        {"task_weights": {"race_c": 1.0, "race_fortran": 1.0, "mlperf": 2.0, "plp": 0.5}},
        kind="control",
    ),
}
METHODS = Table("method", "hargo.methods", _method, _OWN)


class Control(NamedTuple):
    """What is known beforehand of a control: `against` which run it is compared, what it does, whether it may win."""

    against: str
    does: str
    may_win: bool = False


CONTROLS: dict[str, Control] = {
    "shuffled": Control("sft", "learns from rewards permuted within each group and must not beat SFT"),
    "frozen_c": Control("b1", "has a constant for c, so that its weights are B1's and it must not beat B1"),
    "oracle": Control("grpo", "is told each prompt's task and weighs by hand, so that it may beat GRPO", may_win=True),
}
