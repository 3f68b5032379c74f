"""Every option of every method does something, or the method does not have it, or refuses it with a line."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from pydantic import BaseModel, ValidationError

from hargo import tasks
from hargo.config import METHODS
from hargo.config.options import (
    OptimOptions,
    PolicyOptions,
    PreferenceOptions,
    PretrainOptions,
    RLOptions,
    SFTOptions,
)
from hargo.data.records import Row, save_rows
from hargo.engine.pack import Group
from hargo.io import read_jsonl
from hargo.methods import load
from hargo.models.adapt import add_critic
from hargo.models.load import load_model, load_tokenizer
from hargo.rollout import open_sampler
from hargo.training import loop
from hargo.training.examples import training_examples
from hargo.training.job import Places, train
from hargo.training.trainers.pairs import Preferences
from hargo.training.trainers.rollouts import Rollouts
from hargo.training.update import OneLoss

#: option -> another value than the present one, large enough to matter within two passes over one batch
OTHER: dict[str, Callable[[Any], Any]] = {
    "learning_rate": lambda x: x / 2,
    "schedule": lambda x: "linear" if x == "constant" else "constant",
    "warmup": lambda x: 0.9,
    "weight_decay": lambda x: 0.5,
    "beta2": lambda x: 0.5,
    "max_grad_norm": lambda x: 1e-3,
    "tokens_per_pass": lambda x: 60,
    "max_prompt_tokens": lambda x: 40,
    "train_limit": lambda x: 9,
    "epochs": lambda x: x + 1,
    "max_steps": lambda x: 1,
    "schedule_steps": lambda x: 200,
    "prompts_per_step": lambda x: x + 1,
    "batch_size": lambda x: x + 1,
    "average": lambda x: "answers",
    "repeat": lambda x: {"race_c": 2},
    "beta": lambda x: 2 * x + 1,
    "group_size": lambda x: x + 1,
    "temperature": lambda x: 2 * x,
    "kl": lambda x: "exact",
    "inner_passes": lambda x: x + 1,
    "max_new_tokens": lambda x: {"race_c": 1},
    "clip": lambda x: 1e-6 if x > 0.01 else 0.9,
    "clip_high": lambda x: 1e-6 if x > 0.01 else 0.9,
    "shuffle_rewards": lambda x: not x,
    "task_weights": lambda x: {"race_c": 5.0},
    "eps": lambda x: 0.5,
    "length": lambda x: x + 1,
    "resample": lambda x: 0,
    "gamma": lambda x: x / 2,
    "lam": lambda x: x / 2,
    "value_clip": lambda x: x / 1000,
    "value_weight": lambda x: x + 1,
    "alpha": lambda x: x + 1,
    "rho": lambda x: x / 2,
    "eps_w": lambda x: 10.0,
    "frozen": lambda x: 0.9,
    "weighting": lambda x: "d+c" if x == "d" else "d",
    "desirable": lambda x: 2 * x,
    "undesirable": lambda x: 2 * x,
    "rank": lambda x: x + 1,
    "lora_alpha": lambda x: 2 * x,
    "modules": lambda x: ["o_proj"],
}
#: where runs are interrupted: tests/training/test_resume.py; which weights are trained: tests/models/test_switches.py;
#: what is kept of a finished run: tests/training/test_runs.py; what samples: tests/training/test_sampler.py
ELSEWHERE = {"checkpoint_every", "lora", "keep_state", "sampler"}
BASE = {
    "rollouts": {
        "learning_rate": 1e-4,
        "inner_passes": 2,
        "temperature": 1.0,
        "prompts_per_step": 3,
        "max_new_tokens": {"race_c": 3, "race_fortran": 3},
    },
    "pairs": {"learning_rate": 1e-2, "prompts_per_step": 4},
    "demonstrations": {"max_steps": 3, "epochs": 1, "batch_size": 4},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Rows of two tasks, a few of them long."""
    folder = tmp_path_factory.mktemp("two-tasks")
    rows = []
    for number in range(16):
        row = tiny.row(number)
        name = ("race_c", "race_fortran")[number // 2 % 2]
        rows.append(Row(f"{name}/{number:05d}", name, row.prompt * (1 + number % 3), row.answer, {"split": "train"}))
    save_rows(folder / "train.jsonl", rows)
    return folder


def test_sft_and_the_methods_after_it_may_learn_from_different_rows(start: Path, data: Path) -> None:
    tokenizer = load_tokenizer(start / "sft" / "model")

    def ids(options: OptimOptions, share: float | None) -> set[str]:
        study = tiny.study(tasks=["race_c", "race_fortran"], data={"rl_share": share})
        return {example.row.id for example in training_examples(study, tokenizer, data, options)}

    of_sft, of_rl = ids(SFTOptions(), 0.5), ids(PolicyOptions(), 0.5)
    assert of_sft and of_rl and not of_sft & of_rl
    assert of_sft | of_rl == ids(SFTOptions(), None) == ids(PolicyOptions(), None)
    assert of_sft == ids(PretrainOptions(), 0.5) and of_rl == ids(PreferenceOptions(), 0.5)


@pytest.fixture(autouse=True)
def rewards(monkeypatch):
    """Of 0 or 1 by the answer's length, so that some groups have equal ones and most do not."""
    for name in ("race_c", "race_fortran"):
        task = tasks.load(name)
        by_length = type(task)(
            **{**task.__dict__, "reward": lambda outputs, _: [float(len(text) % 2) for text in outputs]}
        )
        monkeypatch.setattr(f"hargo.tasks.{name}.TASK", by_length)


class Trained:
    """What a method makes of its options: its steps, their rates, its batches, and the weights after one batch."""

    def __init__(self, start: Path, data: Path):
        device = torch.device("cpu")
        self.start, self.data = start, data
        self.policy = load_model(start / "sft" / "model", device)
        self.reference = load_model(start / "base", device).requires_grad_(False)  # far enough for a KL
        self.tokenizer = load_tokenizer(start / "sft" / "model")

    def outcome(self, name: str, options: OptimOptions) -> tuple[Any, ...]:
        policy, method = copy.deepcopy(self.policy), load(name, options)
        study = tiny.study(tasks=["race_c", "race_fortran"])
        examples = training_examples(study, self.tokenizer, self.data, options)
        stage: Any
        if METHODS[name].trainer == "pairs":
            pairs = [Group(e.prompt, [e.answer, [5, *e.answer]]) for e in examples]
            stage = Preferences(policy, self.reference, pairs, options, method, 0)
        else:
            if method.critic:
                add_critic(policy)
            sampler = open_sampler(options.sampler, policy, self.tokenizer)
            stage = Rollouts(policy, self.reference, self.tokenizer, examples, options, method, 0, sampler)
        steps = stage.steps()
        horizon = loop.Plan(name, steps, options).horizon
        rates = [loop.learning_rate(options, step, horizon) for step in range(steps)]
        passes, made = [], stage.batch
        stage.batch = lambda step: passes.append(made(step)) or passes[-1]
        update = OneLoss(policy, options)
        for step in range(2):  # the second has a baseline to decay
            update.apply(stage, step, options.learning_rate)
        return (
            rates,
            [batch.passes for batch in passes],
            torch.cat([p.detach().flatten() for p in policy.parameters()]).tolist(),
        )


@pytest.fixture(scope="module")
def trained(start, data) -> Trained:
    return Trained(start, data)


def changed(name: str, base: dict[str, Any], option: str) -> OptimOptions | None:
    """The method's options with another value of one, None if the method refuses it."""
    spec = METHODS[name]
    before = spec.options(**base)
    try:
        return spec.options(**{**base, option: OTHER[option](getattr(before, option))})
    except ValidationError as error:
        assert "has no effect" in str(error)
        return None


@pytest.mark.parametrize("name", [name for name, spec in METHODS.items() if spec.trainer in ("pairs", "rollouts")])
def test_every_option_of_a_method_changes_what_it_does(name, trained):
    spec = METHODS[name]
    base = {**BASE[spec.trainer], **spec.preset}
    if name == "dapo":
        base["beta"] = 0.1  # there is no KL to change otherwise
    before = trained.outcome(name, spec.options(**base))
    # what the same code reads for many methods is changed once for each kind of data; names that differ from another
    # in settings alone are tried with what those settings may put out of use
    known: type[BaseModel] = RLOptions if spec.preset else BaseModel if name in ("grpo", "dpo") else OptimOptions
    idle = []
    for option in spec.options.model_fields.keys() - ELSEWHERE - known.model_fields.keys():
        after = changed(name, base, option)
        if after is not None and trained.outcome(name, after) == before:
            idle.append(option)
    assert not idle, f"{name} takes these options and ignores them: {idle}"


def test_every_option_of_fine_tuning_with_adapters_changes_what_it_does(start, data, tmp_path):
    def outcome(number: int, options: dict[str, Any]) -> tuple[Any, ...]:
        out = tmp_path / str(number)
        study = tiny.study(tasks=["race_c", "race_fortran"], sft={}, methods={"hpc_gpt": options})
        train(study, "hpc_gpt", 0, Places(start / "base", data, out, tmp_path / "checkpoints"))
        log = [{**step, "seconds": 0} for step in map(dict, read_jsonl(out / "metrics.jsonl"))]
        return log, (out / "model" / "model.safetensors").read_bytes()

    base = BASE["demonstrations"]
    before = outcome(0, base)
    spec = METHODS["hpc_gpt"]
    own = spec.options.model_fields.keys() - OptimOptions.model_fields.keys() | {"learning_rate", "max_prompt_tokens"}
    for number, option in enumerate(sorted(own), 1):
        value = OTHER[option](getattr(spec.options(**base), option))
        with_more = {"epochs": {"max_steps": None}}.get(option, {})  # a bound that hides it
        assert outcome(number, {**base, option: value, **with_more}) != before, option
