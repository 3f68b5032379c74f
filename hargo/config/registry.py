"""What can be named in a study. A new task, method, source or sampler is one new file and one line here.

Values are import paths, resolved only when used, so that reading a study never imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from hargo.config import options as o

#: task name -> module holding `TASK`
TASKS: dict[str, str] = {
    "race_c": "hargo.tasks.race_c",
    "race_fortran": "hargo.tasks.race_fortran",
    "mlperf": "hargo.tasks.mlperf",
    "plp": "hargo.tasks.plp",
}

#: data source name -> module holding `load(options, tasks) -> list[Row]` and `TASKS`, the tasks that it has rows for;
#: reading a study imports it, so it must import nothing heavy
SOURCES: dict[str, str] = {
    "embedded": "hargo.data.embedded",
    "hpcgpt": "hargo.data.hpcgpt",
    "hub": "hargo.data.hub",
    "drb": "hargo.data.drb",
}

#: sampler name -> module holding `open_sampler(options, model, tokenizer, batch_rows)`, which gives a
#: `hargo.rollout.Sampler`, and `can_sample(model)`, which gives a reason where it cannot
SAMPLERS: dict[str, str] = {
    "built-in": "hargo.rollout.built_in",
}


class TrainerSpec(NamedTuple):
    """How one kind of run is trained.

    module: has `train(job)`, see `hargo.training.job`; section: of the study, whose keys its methods take over
    pairs: whether it learns from pairs of answers of the model that it starts from; data: what it learns from, in words
    """

    module: str
    section: Literal["pretrain", "sft", "rl"]
    data: str
    pairs: bool = False


#: kind of training -> how it goes
TRAINERS: dict[str, TrainerSpec] = {
    "texts": TrainerSpec("hargo.training.trainers.texts", "pretrain", "the training rows' texts, prompt and answer"),
    "demonstrations": TrainerSpec("hargo.training.trainers.demonstrations", "sft", "the training rows' own answers"),
    "pairs": TrainerSpec(
        "hargo.training.trainers.pairs", "rl", "pairs of answers of the SFT model (`hargo preferences`)", pairs=True
    ),
    "rollouts": TrainerSpec("hargo.training.trainers.rollouts", "rl", "rewarded answers of the model in training"),
}


class MethodSpec(NamedTuple):
    """Where a method lives, which options it takes and how this name sets them.

    trainer: a key of `TRAINERS`
    start: the run it begins with unless the study says otherwise; `base` is the base model, pre-trained where the study
        pre-trains it, and stands for `sft` too in a study without one
    kind: how the report treats it; a run for `groundwork` is not evaluated
    """

    title: str
    module: str
    options: type[o.OptimOptions]
    preset: Mapping[str, Any] = MappingProxyType({})
    trainer: str = "rollouts"
    start: str = "sft"
    kind: Literal["method", "ablation", "control", "groundwork"] = "method"


_SFT = "hargo.methods.sft"
_HARGO = ("hargo.methods.hargo", o.HargoOptions)

#: method name -> module holding `Method`; several names may share one module with other presets
METHODS: dict[str, MethodSpec] = {
    "pretrain": MethodSpec("pre-training", _SFT, o.PretrainOptions, trainer="texts", start="base", kind="groundwork"),
    "sft": MethodSpec("SFT", _SFT, o.SFTOptions, trainer="demonstrations", start="base"),
    "hpc_gpt": MethodSpec("HPC-GPT", "hargo.methods.hpc_gpt", o.LoRAOptions, trainer="demonstrations", start="base"),
    "ppo": MethodSpec("PPO", "hargo.methods.ppo", o.PPOOptions),
    "dpo": MethodSpec("DPO", "hargo.methods.dpo", o.PreferenceOptions, trainer="pairs"),
    "grpo": MethodSpec("GRPO", "hargo.methods.grpo", o.PolicyOptions),
    "dr_grpo": MethodSpec("Dr.GRPO", "hargo.methods.dr_grpo", o.DrGRPOOptions),
    "simpo": MethodSpec("SimPO", "hargo.methods.simpo", o.SimPOOptions, trainer="pairs"),
    "kto": MethodSpec("KTO", "hargo.methods.kto", o.KTOOptions, trainer="pairs"),
    "hargo": MethodSpec("HARGO", *_HARGO),
    "rloo": MethodSpec("RLOO", "hargo.methods.rloo", o.RolloutOptions),
    "dapo": MethodSpec("DAPO", "hargo.methods.dapo", o.DAPOOptions),
    "gspo": MethodSpec("GSPO", "hargo.methods.gspo", o.GSPOOptions),
    "reinforce_pp": MethodSpec("REINFORCE++", "hargo.methods.reinforce_pp", o.PolicyOptions),
    "b1": MethodSpec("B1: d only", *_HARGO, {"weighting": "d"}, kind="ablation"),
    "b2": MethodSpec("B2: c only", *_HARGO, {"weighting": "c"}, kind="ablation"),
    "d_plus_c": MethodSpec("d + αc", *_HARGO, {"weighting": "d+c"}, kind="ablation"),
    "d_times_c": MethodSpec("d × c", *_HARGO, {"weighting": "d*c"}, kind="ablation"),
    "shuffled": MethodSpec("control: rewards shuffled", *_HARGO, {"shuffle_rewards": True}, kind="control"),
    "frozen_c": MethodSpec("control: c frozen", *_HARGO, {"frozen": 0.5}, kind="control"),
    "oracle": MethodSpec(
        "control: weights by task",
        "hargo.methods.grpo",
        o.PolicyOptions,
        {"task_weights": {"race_c": 1.0, "race_fortran": 1.0, "mlperf": 2.0, "plp": 0.5}},
        kind="control",
    ),
}


def resolve(path: str, attribute: str) -> Any:
    """The object `attribute` of the module at import path `path`."""
    return getattr(import_module(path), attribute)
