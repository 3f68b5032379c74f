"""Pre-training, SFT and RL: the same loop, other batches. Each writes model/, metrics.jsonl and run.json."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch

from hargo import provenance
from hargo.config import Study
from hargo.config.code import stage_code
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
from hargo.fingerprint import digest, file_digest
from hargo.io import write_json
from hargo.methods.base import Method
from hargo.methods.sft import Method as SFT
from hargo.models.adapt import WithoutAdapters, add_adapters, add_critic, plain
from hargo.models.attention import capability
from hargo.models.encode import Example
from hargo.models.load import check_context, deterministic, load_model, load_tokenizer, stop_ids
from hargo.rollout import can_sample
from hargo.training import checkpoint, loop, outputs
from hargo.training.batches.base import Batches
from hargo.training.batches.demonstrations import Demonstrations
from hargo.training.batches.pairs import Preferences
from hargo.training.batches.rollouts import Rollouts
from hargo.training.examples import answer_limit, training_examples
from hargo.training.lock import locked
from hargo.training.pack import Group
from hargo.training.pairs import load_pairs
from hargo.training.settings import SETTINGS, tell_of_others

logger = logging.getLogger(__name__)

#: packages whose version decides the bits of a result
LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "peft")


def pretrain(study: Study, model: Path, data: Path, out: Path, checkpoints: Path) -> None:
    """Language modelling on the training rows' texts, prompt and answer, from the folder `model`."""
    options = study.pretrain
    if options is None:
        raise UserError(f"study {study.name!r} has no `pretrain` section; its model is not built from scratch")
    run = _Run(study, model, data, out, checkpoints, options, seed=0, stage="pretrain")
    # the first token has nothing before it to be predicted from: it is the prompt
    texts = [[*example.prompt, *example.answer] for example in repeated(run.examples, options.repeat)]
    groups = [Group(text[:1], [text[1:]]) for text in texts]
    run.train(Demonstrations(groups, options, SFT(), 0, run.model), max(map(len, texts)))


def sft(study: Study, seed: int, model: Path, data: Path, out: Path, checkpoints: Path) -> None:
    """Fine-tune on the answers of the training rows."""
    run = _Run(study, model, data, out, checkpoints, study.sft, seed, stage="sft")
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
    run = _Run(study, model, data, out, checkpoints, options, seed, "train", method)
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
        run.settings["pairs"] = digest([(group.prompt, group.responses) for group in groups])
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
        stage: str,
        method: str | None = None,
    ):
        self.study, self.out, self.options, self.seed = study, out, options, seed
        self.title = stage if stage == "pretrain" else f"{method or stage} seed {seed}"
        self.device = deterministic(study)
        torch.manual_seed(seed)
        self.tokenizer = load_tokenizer(model)
        self.model = load_model(model, self.device, study.compute)
        capability(self.model).require(type(self.model).__name__)
        if reason := can_sample(self.model):
            # neither the methods nor the evaluation could do with it what this would be paid for
            raise UserError(f"{reason}; choose another model")
        self.examples = training_examples(study, self.tokenizer, data, options)
        if not self.examples:
            raise UserError(f"{data / 'train.jsonl'}: no training rows for {self.title}")
        self.settings: dict[str, Any] = {
            "stage": self.title,
            "seed": seed,
            "options": options.model_dump(mode="json", exclude={"checkpoint_every"}),
            "threads": study.compute.threads,
            # other numbers, if only in rounding
            **study.compute.model_dump(mode="json", exclude={"threads", "device"}, exclude_defaults=True),
            "model": study.model.model_dump(mode="json", include={"system", "date"}),
            "data": _rows_digest(self.examples),
            "start": _start_digest(model),
            "code": stage_code(study, stage, method),
            "libraries": {name: found for name, found in provenance.versions().items() if name in LIBRARIES},
            **({"method": method} if method else {}),
        }
        self.checkpoints = checkpoints

    def demonstrate(self, options: SFTOptions, method: Method) -> None:
        """Train on the rows' own answers."""
        examples = repeated(self.examples, options.repeat)
        groups = [Group(example.prompt, [example.answer]) for example in examples]
        longest = max(group.tokens for group in groups)
        self.train(Demonstrations(groups, options, method, self.seed, self.model), longest)

    def train(self, stage: Batches, longest: int) -> None:
        """Run the stage to its end and write the outputs; `longest`: most tokens of a prompt and answer."""
        check_context(self.model, longest, self.title)
        folder = self.checkpoints / digest(self.settings)
        with locked(folder):
            if outputs.kept(folder):
                outputs.bring_back(folder, self.out)
                where = folder / outputs.FINISHED
                logger.info("%s: trained before, outputs written again; to train anew delete %s", self.title, where)
                return
            if not checkpoint.complete(folder):
                tell_of_others(folder, self.settings, self.title)
            write_json(folder / SETTINGS, self.settings)
            compute = self.study.compute
            switches: dict[str, Any] = {"fused": compute.fused_adamw, "precision": compute.precision}
            loop.run(self.model, stage, self.options, folder, self.title, **switches)
            self._finish(folder)
        logger.info("%s: done, model in %s, steps in %s", self.title, self.out / "model", self.out / "metrics.jsonl")

    def _finish(self, folder: Path) -> None:
        """Write the outputs. Until they are kept in `folder` the last checkpoint is what they can be made of again."""
        record = provenance.record(self.study, **{**self.settings, "code": digest(self.settings["code"])})
        outputs.write(self.out, plain(self.model), self.tokenizer, folder / "metrics.jsonl", record)
        whole = checkpoint.complete(folder)
        for path in whole if outputs.keep(self.out, folder) else whole[:-1]:
            checkpoint.remove(path)
        for other in self.checkpoints.iterdir():  # what other settings had written to the same place
            if other != folder:
                outputs.forget(other)


def _rows_digest(examples: list[Example]) -> str:
    return digest([(e.row.id, e.prompt, e.answer) for e in examples])


def _start_digest(folder: Path) -> str:
    """Of everything in a model folder that decides what the model computes and where its answers end."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("*config.json")])
    return digest({path.name: file_digest(path) for path in files})
