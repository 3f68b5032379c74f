"""Pre-training, SFT and RL: the same loop, other batches. Each writes model/, metrics.jsonl and run.json."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from hargo import provenance
from hargo.config import Study
from hargo.config.options import (
    LoRAOptions,
    OptimOptions,
    PostTrainingOptions,
    PreferenceOptions,
    RolloutOptions,
    SFTOptions,
)
from hargo.config.registry import resolve
from hargo.errors import UserError
from hargo.io import read_jsonl, write_json
from hargo.methods.base import Method
from hargo.methods.sft import Method as SFT
from hargo.models.adapt import WithoutAdapters, add_adapters, add_critic, plain
from hargo.models.encode import Example
from hargo.models.load import check_context, deterministic, load_model, load_tokenizer, save_model, stop_ids
from hargo.training import checkpoint, loop
from hargo.training.experience import Demonstrations, Preferences, Rollouts, answer_limit, training_examples
from hargo.training.pack import Group
from hargo.training.pairs import load_pairs

logger = logging.getLogger(__name__)


def pretrain(study: Study, model: Path, data: Path, out: Path, checkpoints: Path) -> None:
    """Language modelling on the training rows' texts, prompt and answer, from the folder `model`."""
    options = study.pretrain
    if options is None:
        raise UserError(f"study {study.name!r} has no `pretrain` section; its model is not built from scratch")
    run = _Run(study, model, data, out, checkpoints, options, seed=0, title="pretrain", settings={})
    # the first token has nothing before it to be predicted from: it is the prompt
    texts = [[*example.prompt, *example.answer] for example in repeated(run.examples, options.repeat)]
    groups = [Group(text[:1], [text[1:]]) for text in texts]
    run.train(Demonstrations(groups, options, SFT(), 0, run.device), max(map(len, texts)))


def sft(study: Study, seed: int, model: Path, data: Path, out: Path, checkpoints: Path) -> None:
    """Fine-tune on the answers of the training rows."""
    run = _Run(study, model, data, out, checkpoints, study.sft, seed, title=f"sft seed {seed}", settings={})
    run.demonstrate(study.sft, SFT())


def train(
    study: Study,
    method: str,
    seed: int,
    model: Path,
    data: Path,
    out: Path,
    checkpoints: Path,
    pairs: Path | None = None,
) -> None:
    """Post-train the model in the folder `model` with `method`; that same model is the frozen reference.

    pairs: folder of `preferences`, for the methods that learn from pairs
    """
    try:
        options, spec = study.method(method), study.spec(method)
    except ValueError as error:
        raise UserError(str(error)) from None
    if spec.data == "pairs" and pairs is None:
        raise UserError(
            f"{method} learns from pairs of answers: name their folder, made by `hargo preferences`, with --pairs"
        )
    run = _Run(study, model, data, out, checkpoints, options, seed, f"{method} seed {seed}", {"method": method})
    learner = resolve(spec.module, "Method")(options)
    if isinstance(options, LoRAOptions):
        run.model = add_adapters(run.model, options, seed)
        run.demonstrate(options, learner)
        return
    assert isinstance(options, PostTrainingOptions)
    if options.lora is not None:
        run.model = add_adapters(run.model, options.lora, seed)
    reference = _reference(run, model, learner, options)
    if isinstance(options, PreferenceOptions):
        assert pairs is not None
        groups = load_pairs(pairs, run.examples, data)
        run.settings["pairs"] = checkpoint.fingerprint([(group.prompt, group.responses) for group in groups])
        longest = max(len(group.prompt) + max(map(len, group.responses)) for group in groups)
        run.train(Preferences(run.model, reference, groups, options, learner, seed), longest)
        return
    assert isinstance(options, RolloutOptions)
    if learner.critic:
        add_critic(run.model)
    stop = stop_ids(run.model, run.tokenizer)
    reuse = not study.compute.gradient_checkpointing  # who computes activations again does not want them kept
    stage = Rollouts(run.model, reference, run.tokenizer, run.examples, options, learner, seed, stop, reuse)
    longest = max(len(e.prompt) + answer_limit(e.row.task, options.max_new_tokens) for e in run.examples)
    run.train(stage, longest)


def _reference(run: _Run, model: Path, learner: Method, options: PostTrainingOptions) -> Any:
    """The frozen SFT model, None for a method that never looks at it."""
    if not (learner.reference or learner.mismatched):
        return None
    if options.lora is not None:
        return WithoutAdapters(run.model)
    return load_model(model, run.device, run.study.compute).requires_grad_(False)


def repeated(examples: list[Example], times: dict[str, int]) -> list[Example]:
    """Every example as often as its task says, once where it says nothing."""
    return [example for example in examples for _ in range(times.get(example.row.task, 1))]


class _Run:
    """What the stages share: loading, the folder of checkpoints, and the three outputs."""

    def __init__(
        self,
        study: Study,
        model: Path,
        data: Path,
        out: Path,
        checkpoints: Path,
        options: OptimOptions,
        seed: int,
        title: str,
        settings: dict[str, Any],
    ):
        self.study, self.out, self.options, self.seed, self.title = study, out, options, seed, title
        self.device = deterministic(study)
        torch.manual_seed(seed)
        self.tokenizer = load_tokenizer(model)
        self.model = load_model(model, self.device, study.compute)
        self.examples = training_examples(study, self.tokenizer, data, options)
        if not self.examples:
            raise UserError(f"{data / 'train.jsonl'}: no training rows for {title}")
        self.settings = {
            "stage": title,
            "seed": seed,
            "options": options.model_dump(exclude={"checkpoint_every"}),
            "threads": study.compute.threads,
            # other numbers, if only in rounding
            **study.compute.model_dump(exclude={"threads", "device"}, exclude_defaults=True),
            "model": study.model.model_dump(),
            "data": _digest(self.examples),
            "start": _weights_digest(model),
            **settings,
        }
        self.checkpoints = checkpoints

    def demonstrate(self, options: SFTOptions, method: Method) -> None:
        """Train on the rows' own answers."""
        examples = repeated(self.examples, options.repeat)
        groups = [Group(example.prompt, [example.answer]) for example in examples]
        longest = max(group.tokens for group in groups)
        self.train(Demonstrations(groups, options, method, self.seed, self.device), longest)

    def train(self, stage: loop.Stage, longest: int) -> None:
        """Run the stage to its end and write the outputs; `longest`: most tokens of a prompt and answer."""
        check_context(self.model, longest, self.title)
        folder = self.checkpoints / checkpoint.fingerprint(self.settings)
        loop.run(self.model, stage, self.options, folder, self.title, fused=self.study.compute.fused_adamw)
        save_model(self.out / "model", plain(self.model), self.tokenizer)
        shutil.copyfile(folder / "metrics.jsonl", self.out / ".metrics.jsonl")
        os.replace(self.out / ".metrics.jsonl", self.out / "metrics.jsonl")
        record = provenance.record(self.study, **self.settings)
        # a resumed run took longer than its last process: count the steps of all of them
        steps = sum(step["seconds"] for step in read_jsonl(self.out / "metrics.jsonl"))
        write_json(self.out / "run.json", {**record, "wall_seconds": round(max(record["wall_seconds"], steps), 1)})
        for path in checkpoint.complete(folder):  # the finished weights are in model/
            checkpoint.remove(path)
        logger.info("%s: done, model in %s, steps in %s", self.title, self.out / "model", self.out / "metrics.jsonl")


def _digest(examples: list[Example]) -> str:
    return checkpoint.fingerprint([(e.row.id, e.prompt, e.answer) for e in examples])


def _weights_digest(folder: Path) -> str:
    import hashlib

    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
