"""The one training loop. A stage gives it batches; a method gives it losses; it does the rest, resumably.

Everything that happens at step n is a function of the weights, the optimiser state, the stage's saved state, the
seed and n. Nothing else is carried from step to step, so a run killed anywhere ends in the same bits.
"""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hargo.config.options import OptimOptions
from hargo.errors import Interrupted, UserError
from hargo.methods.base import Tokens
from hargo.training import checkpoint
from hargo.training.batches.base import Batch, Batches
from hargo.training.log import StepLog
from hargo.training.pack import Scores, score
from hargo.training.signals import asked_to_stop

logger = logging.getLogger(__name__)


def learning_rate(options: OptimOptions, step: int, total: int) -> float:
    """At 0-based `step`: linear warm-up over a share of the steps, then constant, linear or cosine to zero."""
    warm = math.ceil(options.warmup * total)
    if step < warm:
        return options.learning_rate * (step + 1) / (warm + 1)
    done = (step - warm) / max(1, total - warm)
    factor = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done))}
    return options.learning_rate * factor[options.schedule]


def make_optimizer(model: torch.nn.Module, options: OptimOptions, fused: bool = True) -> torch.optim.Optimizer:
    """AdamW; weight decay on matrices only, as is usual."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = [p for p in trained if p.ndim >= 2]
    vectors = [p for p in trained if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": options.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=options.learning_rate, betas=(0.9, options.beta2), fused=fused)


#: largest difference that is rounding, by the precision of products, between log-probabilities sampled and trained on
ROUNDING = {"float32": 0.05, "bfloat16": 0.5}


def run(
    model: Any,
    stage: Batches,
    options: OptimOptions,
    folder: Path,
    title: str,
    *,
    fused: bool = True,
    precision: str = "float32",
) -> None:
    """Train `model` in place for all of the stage's steps, from the newest checkpoint in `folder` if there is one.

    Asked to stop by SIGTERM or SIGUSR2 it finishes the step, writes a checkpoint and raises Interrupted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    total = stage.steps()
    optimizer = make_optimizer(model, options, fused)
    state = checkpoint.load_newest(folder, model, optimizer)
    start = 0
    if state is not None:
        start = state["step"]
        stage.method.load_state_dict(state["method"])
        logger.info("%s: resuming after step %d of %d from %s", title, start, total, folder)
    log = StepLog(folder, start, total, title)
    try:
        with asked_to_stop() as stop:
            for step in range(start, total):
                began = time.monotonic()
                rate = learning_rate(options, step, total)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                record = train_step(model, stage, optimizer, options, step, ROUNDING[precision])
                seconds = time.monotonic() - began
                log.write({"step": step + 1, "learning_rate": rate, **record, "seconds": round(seconds, 4)})
                asked = stop()
                if asked or (step + 1) % options.checkpoint_every == 0 or step + 1 == total:
                    log.sync()
                    checkpoint.save(folder, step + 1, model, optimizer, {"method": stage.method.state_dict()})
                if asked and step + 1 < total:
                    raise Interrupted(f"{title}: {asked} after step {step + 1} of {total}; checkpoint in {folder}")
    finally:
        log.close()


def train_step(
    model: Any,
    stage: Batches,
    optimizer: torch.optim.Optimizer,
    options: OptimOptions,
    step: int,
    rounding: float = ROUNDING["float32"],
) -> dict[str, Any]:
    """One batch: `inner_passes` optimiser steps on it. Returns the figures for the log.

    rounding: largest gap to the rollout, in nats, that step 0 may show; UserError where it is more
    """
    optimizer.zero_grad(set_to_none=True)  # of the step before: a rollout can use the memory
    batch = stage.batch(step)
    sampled = batch.advantages is not None
    old: list[Tensor] = []
    gap_to_rollout = 0.0
    record: dict[str, Any] = {}
    for inner in range(stage.inner_passes):
        optimizer.zero_grad(set_to_none=True)
        loss = 0.0
        figures: dict[str, float] = {}
        ratio_max = 0.0
        for number, packed in enumerate(batch.packed):
            past, batch.past = batch.past, None  # of these weights, and of one backward pass
            scores = score(model, packed, stage.temperature, entropy=sampled, values=stage.method.critic, past=past)
            if inner == 0:
                # on policy: the ratio is exactly 1, and later passes compare with these
                old.append(scores.logp.detach())
                gap_to_rollout = max(gap_to_rollout, _gap_to_rollout(batch, number, scores))
            part, found = stage.method.loss(_tokens(batch, number, scores, old[number]))
            part.backward()
            loss += float(part.detach())
            if sampled:
                found["entropy"] = scores.entropy.sum() / batch.total_tokens
            for key, value in found.items():
                figures[key] = figures.get(key, 0.0) + float(value)
            if "ratio" in found:
                gap = (scores.logp.detach() - old[number]).abs().max()
                ratio_max = max(ratio_max, math.exp(min(20.0, float(gap))))
        if step == 0:
            _check_gap(model, gap_to_rollout, rounding)
        norm = clip_gradient(model, options.max_grad_norm)
        if not math.isfinite(norm):
            raise UserError(f"the gradient is not finite at step {step + 1}; lower learning_rate or max_grad_norm")
        optimizer.step()
        record = {"loss": loss, "grad_norm": norm, **figures}
        if "ratio" in figures:
            record["ratio_max"] = ratio_max
    if sampled:
        record["rollout_gap"] = gap_to_rollout
    record["tokens"] = sum(group.tokens for group in batch.groups)
    return {**record, **batch.metrics}


def clip_gradient(model: torch.nn.Module, bound: float) -> float:
    """Scale the gradient to at most `bound` and return the norm it had. One within the bound is left untouched."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    if not float(norm) + 1e-6 <= bound:
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), bound, norm)
    return float(norm)


def _gap_to_rollout(batch: Batch, number: int, scores: Scores) -> float:
    """Largest difference between log-probabilities in sampling and in training; more than rounding is a fault."""
    if batch.sampled_logp is None:
        return 0.0
    rows = batch.responses(number)
    sampled = torch.tensor([value for row in rows for value in batch.sampled_logp[row]], device=scores.logp.device)
    return float((scores.logp.detach()[scores.mask] - sampled).abs().max())


def _check_gap(model: Any, gap: float, rounding: float) -> None:
    """UserError, before any weight has changed, where training does not see the model that was sampled."""
    if not gap <= rounding:
        raise UserError(
            f"rollout_gap is {gap:.3g} at step 1: {type(model).__name__} gives sampled tokens other log-probabilities "
            f"in training than in sampling, by more than rounding ({rounding:g}), so that RL would learn from a model "
            "that was not sampled; nothing was changed: choose another model, and please report this one"
        )


def _tokens(batch: Batch, number: int, scores: Scores, old: Tensor) -> Tokens:
    """The part of the batch that pass `number` scored, with the denominators of the whole batch."""
    rows = batch.responses(number)

    def part(values: Tensor | None) -> Tensor | None:
        return None if values is None else values[rows] if values.ndim == 1 else values[rows, : scores.mask.shape[-1]]

    return Tokens(
        logp=scores.logp,
        mask=scores.mask,
        groups=len(batch.groups),
        total_tokens=batch.total_tokens,
        old_logp=old,
        ref_logp=None if batch.ref_logp is None else batch.ref_logp[number],
        advantages=part(batch.advantages),
        weights=part(batch.weights),
        values=scores.values,
        old_values=part(batch.old_values),
        returns=part(batch.returns),
        reference_point=batch.reference_point,
    )
