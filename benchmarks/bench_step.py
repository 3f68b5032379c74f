"""One RL step, rollout to optimiser, against TRL's GRPOTrainer: the same model, rows, G and temperature.

    python benchmarks/bench_step.py --groups 4              # ours and TRL's in turns
    python benchmarks/bench_step.py --groups 8 --rivals grpo trl+per_device_train_batch_size=4
    python benchmarks/bench_step.py --groups 4 --races      # short answers, no reference
    python benchmarks/bench_step.py --groups 4 --rivals grpo hargo
    python benchmarks/bench_step.py --groups 4 --rivals grpo grpo+compile grpo+tokens_per_pass=1024
    python benchmarks/bench_step.py --profile --groups 4    # where our step's time goes

A rival is `trl` with keys of its GRPOConfig, or a method with keys of `compute` or of its own, after plus signs. A pass
takes a whole step where `tokens_per_pass` does not say less. TRL runs as it is fastest here: one group per micro-batch,
no gradient checkpointing. The learning rate is too small to change a weight, so that all answer with the same model at
every step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import common  # first: it binds threads before torch is imported
import yaml

from hargo import provenance
from hargo.config.options import ComputeOptions, RolloutOptions
from hargo.io import read_json
from hargo.methods import load
from hargo.models.encode import prompt_text
from hargo.models.load import deterministic, load_model, load_tokenizer
from hargo.rollout import open_sampler
from hargo.training.trainers.rollouts import Rollouts
from hargo.training.update import OneLoss

PROMPTS = 8
WHOLE_STEP = 8192  # tokens: no step here has more
STILL = 1e-15  # learning rate


def parse(rival: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Method, its own keys and those of `compute` that `rival`, as in `grpo+tokens_per_pass=1024+compile`, names."""
    method, *changes = rival.split("+")
    found: dict[str, Any] = {}
    for key, _, value in (change.partition("=") for change in changes):
        found[key] = yaml.safe_load(value) if value else True
    compute = {key: value for key, value in found.items() if key in ComputeOptions.model_fields}
    return method, {key: value for key, value in found.items() if key not in compute}, compute


def ours(options: argparse.Namespace, group: int, rival: str = "grpo") -> tuple[Any, Rollouts, RolloutOptions, Any]:
    """Model, stage, options and update of a run of `rival`, before its first step."""
    method, own, compute = parse(rival)
    study = common.study(options, compute)
    device = deterministic(study)
    folder, _ = common.prepare(options)
    tokenizer, policy = load_tokenizer(folder), load_model(folder, device, study.compute)
    found = study.method(method)
    assert isinstance(found, RolloutOptions)
    sizes = {"group_size": group, "prompts_per_step": PROMPTS, "tokens_per_pass": WHOLE_STEP, "learning_rate": STILL}
    chosen = type(found).model_validate(found.model_dump() | sizes | own)
    examples = common.rows(options, tokenizer, PROMPTS * (options.rounds + 1))
    learner = load(method, chosen)
    reference = load_model(folder, device, study.compute).requires_grad_(False) if learner.reference else None
    reuse = not study.compute.gradient_checkpointing
    sampler = open_sampler(chosen.sampler, policy, tokenizer)
    stage = Rollouts(policy, reference, tokenizer, examples, chosen, learner, 0, sampler, reuse)
    stage.order = common.InOrder(PROMPTS)  # type: ignore[assignment]
    return policy, stage, chosen, OneLoss(policy, chosen, fused=study.compute.fused_adamw)


def work(options: argparse.Namespace, rival: str, group: int) -> None:
    """The worker's side."""
    method, own, _ = parse(rival)
    if method == "trl":
        trl(options, group, own)
        return
    _, stage, chosen, update = ours(options, group, rival)
    spent = own_seconds(stage.method)
    steps = iter(range(options.rounds + 1))

    def step() -> dict[str, Any]:
        record = update.apply(stage, next(steps), chosen.learning_rate)
        seconds, spent["seconds"] = spent["seconds"], 0.0
        return {"length": record["length/mean"], "tokens": record["tokens"], "own": seconds}

    common.serve(step)


def own_seconds(method: Any) -> dict[str, float]:
    """Seconds spent in what a method itself computes, its weights and its loss, from now on."""
    own = {"seconds": 0.0}

    def timed(inner: Callable[..., Any]) -> Callable[..., Any]:
        def outer(*args: Any) -> Any:
            began = time.perf_counter()
            found = inner(*args)
            own["seconds"] += time.perf_counter() - began
            return found

        return outer

    method.shares, method.loss = timed(method.shares), timed(method.loss)
    return own


def trl(options: argparse.Namespace, group: int, own: dict[str, Any]) -> None:
    import torch
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
    from trl.trainer import base_trainer

    from hargo import tasks

    base_trainer.send_telemetry = lambda *_, **__: None
    torch.set_num_threads(common.THREADS)
    study = common.study(options)
    folder, _ = common.prepare(options)
    tokenizer = load_tokenizer(folder)
    examples = common.rows(options, tokenizer, PROMPTS * (options.rounds + 1))
    rows = [
        {
            "prompt": prompt_text(tokenizer, tasks.load(e.row.task).prompt(e.row.prompt), study.model),
            "task": e.row.task,
            "answer": e.row.answer,
        }
        for e in examples
    ]

    def reward(completions: list[str], task: list[str], answer: list[str], **_: Any) -> list[float | None]:
        given = zip(completions, task, answer, strict=True)
        return [tasks.load(name).reward([text], [reference])[0] for text, name, reference in given]

    class Turns(TrainerCallback):
        """Holds every step until told to go on."""

        def __init__(self) -> None:
            self.turns, self.began = common.turns(), common.now()

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            next(self.turns, None)
            self.began = common.now()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            common.report(self.began, {})

    size = own.setdefault("per_device_train_batch_size", group)
    config = GRPOConfig(
        output_dir=str(options.out / "trl"),
        gradient_accumulation_steps=PROMPTS * group // size,
        num_generations=group,
        max_completion_length=common.new_tokens(options),
        temperature=study.rl.temperature,
        beta=study.rl.beta,
        learning_rate=STILL,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=not torch.cuda.is_available(),
        shuffle_dataset=False,
        max_steps=options.rounds + 1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        **own,
    )
    model = common.stock_model(folder, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    trainer = GRPOTrainer(
        model, reward, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer,
        callbacks=[Turns()],
    )  # fmt: skip
    trainer.train()


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[4, 8], help="G, answers per prompt")
    parser.add_argument("--rivals", nargs="+", default=["grpo", "trl"], help="trl and methods, as above")
    parser.add_argument("--profile", action="store_true", help="time the parts of our step")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options, options.worker, options.groups[0])
        return
    common.prepare(options)
    if options.profile:
        from profile_step import profile

        common.write(options, "profile", {str(g): profile(options, *ours(options, g)) for g in options.groups})
        return
    methods = {parse(rival)[0] for rival in options.rivals}
    name = "races" if options.races else "step" if "trl" in methods else "methods" if len(methods) > 1 else "switches"
    path = options.out / f"{name}.json"
    figures = read_json(path)["figures"] if path.is_file() else {}  # of other G, which took hours
    for group in options.groups:
        shared = common.again(__file__, options, "--groups", group)
        rivals = {name: [*shared, "--worker", name] for name in options.rivals}
        steps = common.take_turns(rivals, options.rounds)
        samples = PROMPTS * group
        figures[str(group)] = {
            rival: {
                "seconds": common.median(found),
                "samples_per_second": samples / common.median(found),
                "peak_gb": max(step["peak"] for step in found) / 1e9,
                **({"own_seconds": common.median(found, "own")} if "own" in found[0] else {}),
                "revision": (provenance.git_revision() or {}).get("revision"),
                "steps": found,
            }
            for rival, found in steps.items()
        }
        for rival, found in figures[str(group)].items():
            print(f"G={group} {rival}: {found['seconds']:.2f} s a step, {found['peak_gb']:.1f} GB")
        common.write(options, name, figures)


if __name__ == "__main__":
    main()
