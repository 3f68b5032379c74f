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
    "jsonl": "hargo.data.jsonl",
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
    """Where a method is, which options it takes and how this name sets them.

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


def resolve(path: str, attribute: str) -> Any:
    """The object `attribute` of the module at import path `path`."""
    return getattr(import_module(path), attribute)
