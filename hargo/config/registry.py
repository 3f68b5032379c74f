"""What can be named in a study: tasks, data sources, samplers, and kinds of training.

Each is one new file, in this package with one line here, or outside it: see `hargo.config.extend`. Entries are resolved
only when used, so that reading a study never imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from hargo.config import options as o
from hargo.config.tables import Table, module_of, of_type, require_module, resolve
from hargo.errors import UserError


class TrainerSpec(NamedTuple):
    """How one kind of run is trained.

    module: has `train(job)`, see `hargo.training.job`; section: of the study, whose keys its methods take over
    pairs: whether it learns from pairs of answers of the model that it starts from; data: what it learns from, in words
    """

    module: str
    section: Literal["pretrain", "sft", "rl"]
    data: str
    pairs: bool = False


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


def _task(name: str, where: str) -> str:
    task = of_type(where, resolve("hargo.tasks.base:Task"))
    if task.name != name:
        raise UserError(f"{where} is called {task.name!r}; name it so, or give the Task the name {name!r}")
    return where


def _source(name: str, where: str) -> str:
    if not callable(resolve(where, "load")):
        raise UserError(f"`load` of {where} is no function `load(options, tasks)`")
    return where


def _sampler(name: str, where: str) -> str:
    """It needs torch, so it is imported only when it samples."""
    require_module(module_of(where))
    return where


def _trainer(name: str, where: str) -> TrainerSpec:
    trainer = of_type(where, TrainerSpec)
    require_module(trainer.module)
    return trainer


#: task name -> its `Task`
TASKS = Table(
    "task",
    "hargo.tasks",
    _task,
    {
        "race_c": "hargo.tasks.race_c:TASK",
        "race_fortran": "hargo.tasks.race_fortran:TASK",
        "mlperf": "hargo.tasks.mlperf:TASK",
        "plp": "hargo.tasks.plp:TASK",
    },
)

#: data source name -> module holding `load(options, tasks) -> list[Row]` and `TASKS`, the tasks that it has rows for;
#: reading a study imports it, so it must import nothing heavy
SOURCES = Table(
    "data source",
    "hargo.sources",
    _source,
    {
        "embedded": "hargo.data.embedded",
        "jsonl": "hargo.data.jsonl",
        "hpcgpt": "hargo.data.hpcgpt",
        "hub": "hargo.data.hub",
        "drb": "hargo.data.drb",
    },
)

#: sampler name -> module holding `open_sampler(options, model, tokenizer, batch_rows)`, which gives a
#: `hargo.rollout.Sampler`, and `can_sample(model)`, which gives a reason where it cannot
SAMPLERS = Table("sampler", "hargo.samplers", _sampler, {"built-in": "hargo.rollout.built_in"})

#: kind of training -> how it goes
TRAINERS = Table(
    "trainer",
    "hargo.trainers",
    _trainer,
    {
        "texts": TrainerSpec(
            "hargo.training.trainers.texts", "pretrain", "the training rows' texts, prompt and answer"
        ),
        "demonstrations": TrainerSpec(
            "hargo.training.trainers.demonstrations", "sft", "the training rows' own answers"
        ),
        "pairs": TrainerSpec(
            "hargo.training.trainers.pairs", "rl", "pairs of answers of the SFT model (`hargo preferences`)", pairs=True
        ),
        "rollouts": TrainerSpec("hargo.training.trainers.rollouts", "rl", "rewarded answers of the model in training"),
    },
)
