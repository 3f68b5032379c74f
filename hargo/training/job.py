"""One run of training: what it starts from, which settings decide its numbers, and what it leaves.

A trainer is `train(job)` in a module that `hargo.config.registry.TRAINERS` names. It takes model and examples from its
job, and gives the job work to do in the run's folder of checkpoints: `descend` by gradient, or `perform` for any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hargo import provenance
from hargo.config import Study
from hargo.config.code import stage_code
from hargo.config.runs import Run
from hargo.config.tables import resolve
from hargo.engine.capability import capability
from hargo.errors import UserError
from hargo.fingerprint import digest, file_digest
from hargo.io import write_json, write_text
from hargo.methods.base import Method
from hargo.models.adapt import WithoutAdapters, add_adapters, plain
from hargo.models.encode import Example
from hargo.models.load import check_context, deterministic, load_model, load_tokenizer, save_model
from hargo.rollout import can_sample
from hargo.training import checkpoint, loop, outputs
from hargo.training.batch import Batches
from hargo.training.card import card
from hargo.training.examples import training_examples
from hargo.training.lock import locked
from hargo.training.settings import SETTINGS, tell_of_others
from hargo.training.update import ROUNDING, OneLoss

logger = logging.getLogger(__name__)

#: packages whose version decides the bits of a result
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "peft")


@dataclass(frozen=True)
class Places:
    """Folders of a run: the model it starts from, the rows, its outputs, its checkpoints, pairs of answers if any."""

    model: Path
    data: Path
    out: Path
    checkpoints: Path
    pairs: Path | None = None


def train(study: Study, name: str, seed: int, places: Places) -> None:
    """Train the run `name` of a study; the model that it starts from is its frozen reference too.

    UserError for what the user can fix; Interrupted where it was told to stop, with a checkpoint to resume from.
    """
    run = study.run(name)
    if run.trainer.pairs and places.pairs is None:
        raise UserError(
            f"{name} learns from pairs of answers; give their folder, made by `hargo preferences`, with --pairs"
        )
    resolve(run.trainer.module, "train")(Job(study, run, seed, places))


class Job:
    """What trainers share: the model and the rows of a run, its settings, and its outputs.

    model: in training, with adapters where the options ask for them; examples: what it may learn from
    settings: everything that decides its numbers except how long it trains
    """

    def __init__(self, study: Study, run: Run, seed: int, places: Places) -> None:
        self.study, self.run, self.seed, self.places = study, run, seed, places
        self.options: Any = run.options
        self.title = f"{run.name} seed {seed}"
        self.device = deterministic(study)
        torch.manual_seed(seed)
        self.tokenizer = load_tokenizer(places.model)
        self.model: Any = load_model(places.model, self.device, study.compute)
        capability(self.model).require(type(self.model).__name__)
        if reason := can_sample(study.rl.sampler, self.model):
            # neither the methods nor the evaluation could use what this run would produce
            raise UserError(f"{reason}; choose another model")
        self.examples = training_examples(study, self.tokenizer, places.data, self.options)
        if not self.examples:
            raise UserError(f"{places.data / 'train.jsonl'}: no training rows for {self.title}")
        if self.options.adapters is not None:
            self.model = add_adapters(self.model, self.options.adapters, seed)
        self.settings = self._settings()

    def _settings(self) -> dict[str, Any]:
        options, compute = self.options, self.study.compute
        return {
            "stage": self.title,
            "seed": self.seed,
            "method": self.run.method,
            "options": options.model_dump(mode="json", exclude={*options.free, *options.budget}),
            "threads": compute.threads,
            # other numbers, if only in rounding
            **compute.model_dump(mode="json", exclude={"threads", "device"}, exclude_defaults=True),
            "model": self.study.model.model_dump(mode="json", include={"system", "date"}),
            "data": _rows_digest(self.examples),
            "start": _start_digest(self.places.model),
            "code": stage_code(self.study, "train", self.run.name),
            "libraries": {name: version for name, version in provenance.versions().items() if name in LIBRARIES},
        }

    def method(self) -> Method:
        """The run's method with its options."""
        method: Method = resolve(self.run.spec.module, "Method")(self.options)
        return method

    def reference(self, method: Method) -> Any:
        """The model that the run starts from, frozen; None for a method that never looks at it."""
        if not (method.reference or method.mismatched):
            return None
        if self.options.adapters is not None:
            return WithoutAdapters(self.model)
        return load_model(self.places.model, self.device, self.study.compute).requires_grad_(False)

    def descend(self, batches: Batches, longest: int, stops: Sequence[loop.StopRule] = ()) -> None:
        """Train by gradient on `batches` and write the outputs.

        longest: most tokens of a prompt and answer; stops: rules that may end it early
        """
        check_context(self.model, longest, self.title)
        options, compute = self.options, self.study.compute
        total = batches.steps()
        plan = loop.Plan(self.title, total, options, self.run.keep, tuple(stops))
        self.settings["schedule"] = plan.schedule
        update = OneLoss(self.model, options, fused=compute.fused_adamw, rounding=ROUNDING[compute.precision])
        self.perform(lambda folder: loop.run(update, batches, plan, folder, self.keep), total)

    def perform(self, work: Callable[[Path], None], budget: int) -> None:
        """Do `work`, which trains the model and writes metrics.jsonl, in the run's folder; then write the outputs.

        budget: steps, or what else says how much work it is; done before, the outputs are written again
        """
        folder = self.places.checkpoints / digest(self.settings)
        with locked(folder):
            if outputs.kept(folder, budget, self.run.keep):
                outputs.bring_back(folder, budget, self.places.out)
                where = outputs.finished(folder, budget)
                logger.info("%s: trained before, outputs written again; to train anew, delete %s", self.title, where)
                return
            if not checkpoint.complete(folder):
                tell_of_others(folder, self.settings, self.title)
            write_json(folder / SETTINGS, self.settings)
            work(folder)
            self._finish(folder, budget)
        out = self.places.out
        logger.info("%s: done, model in %s, steps in %s", self.title, out / "model", out / "metrics.jsonl")

    def keep(self, folder: Path) -> None:
        """Write the model as it is now to `folder`."""
        save_model(folder, plain(self.model), self.tokenizer)

    def _finish(self, folder: Path, budget: int) -> None:
        """Write the outputs. Until they are kept in `folder` the last checkpoint is what they can be made of again."""
        out = self.places.out
        options = self.options.model_dump(mode="json", exclude=self.options.free)
        settings = {**self.settings, "options": options, "code": digest(self.settings["code"])}
        outputs.write(out, plain(self.model), self.tokenizer, folder, provenance.record(self.study, **settings))
        write_text(out / "model" / "README.md", card(self.study, self.run, self.seed, self.tokenizer))
        whole = checkpoint.complete(folder)
        linked = outputs.keep(out, folder, budget)
        for path in whole if linked and not self.options.keep_state else whole[:-1]:
            checkpoint.remove(path)
        for other in self.places.checkpoints.iterdir():  # what other settings had written to the same place
            outputs.forget(other, None if other != folder else budget)


def _rows_digest(examples: list[Example]) -> str:
    return digest([(e.row.id, e.prompt, e.answer) for e in examples])


def _start_digest(folder: Path) -> str:
    """Of everything in a model folder that decides what the model computes and where its answers end."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*config.json")])
    return digest({path.name: file_digest(path) for path in files})
