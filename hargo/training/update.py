"""Updates: how the weights change on one batch. Today one loss with one optimiser."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from hargo.config.options import OptimOptions
from hargo.engine.pack import Scores, score
from hargo.errors import UserError
from hargo.methods.base import Tokens
from hargo.training.batch import Batch, Batches

#: largest difference that is rounding, by the precision of products, between log-probabilities sampled and trained on
ROUNDING = {"float32": 0.05, "bfloat16": 0.5}


class Update(Protocol):
    """model: in training; optimizers: by the name that their state has in checkpoints."""

    model: Any

    @property
    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]: ...

    def apply(self, batches: Batches, step: int, rate: float) -> dict[str, Any]:
        """Learn from the batch of `step` at a learning rate; the figures for the log, `tokens` among them."""
        ...


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


class OneLoss:
    """The batches' own loss with one optimiser, AdamW unless another is given.

    rounding: largest gap to the rollout, in nats, that step 0 may show; UserError where it is more
    """

    def __init__(
        self,
        model: Any,
        options: OptimOptions,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        fused: bool = True,
        rounding: float = ROUNDING["float32"],
    ) -> None:
        self.model, self.bound, self.rounding = model, options.max_grad_norm, rounding
        self.optimizer = optimizer or make_optimizer(model, options, fused)

    @property
    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]:
        return {"optimizer": self.optimizer}

    def apply(self, batches: Batches, step: int, rate: float) -> dict[str, Any]:
        """One batch: `inner_passes` optimiser steps on it."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)  # of the step before: a rollout can use the memory
        batch = batches.batch(step)
        old: list[Tensor] = []
        gap = 0.0
        record: dict[str, Any] = {}
        for inner in range(batches.inner_passes):
            self.optimizer.zero_grad(set_to_none=True)
            figures, gaps = accumulate(self.model, batches, batch, old)
            if inner == 0:
                gap = gaps
            if step == 0:
                _check_gap(self.model, gap, self.rounding)
            norm = clip_gradient(self.model, self.bound)
            if not math.isfinite(norm):
                raise UserError(f"the gradient is not finite at step {step + 1}; lower learning_rate or max_grad_norm")
            self.optimizer.step()
            record = {"loss": figures.pop("loss"), "grad_norm": norm, **figures}
        if batch.advantages is not None:
            record["rollout_gap"] = gap
        record["tokens"] = sum(group.tokens for group in batch.groups)
        return {**record, **batch.metrics}


def accumulate(model: Any, batches: Batches, batch: Batch, old: list[Tensor]) -> tuple[dict[str, float], float]:
    """Add the gradient of a batch's loss, pass by pass; its figures, and the largest gap to the rollout.

    old: per pass, [responses, longest], log pi before the first optimiser step on this batch; filled in the first
    """
    sampled = batch.advantages is not None
    figures: dict[str, float] = {"loss": 0.0}
    ratio_max, widest = 0.0, 0.0
    for number, packed in enumerate(batch.packed):
        past, batch.past = batch.past, None  # valid for these weights and for one backward pass
        critic = batches.method.critic
        scores = score(model, packed, batches.temperature, entropy=sampled, values=critic, past=past)
        if len(old) == number:
            # on policy: the ratio is exactly 1, and later passes compare with these
            old.append(scores.logp.detach())
            widest = max(widest, _gap_to_rollout(batch, number, scores))
        part, parts = batches.method.loss(_tokens(batch, number, scores, old[number]))
        part.backward()
        figures["loss"] += float(part.detach())
        if sampled:
            parts["entropy"] = scores.entropy.sum() / batch.total_tokens
        for key, value in parts.items():
            figures[key] = figures.get(key, 0.0) + float(value)
        if "ratio" in parts:
            gap = (scores.logp.detach() - old[number]).abs().max()
            ratio_max = max(ratio_max, math.exp(min(20.0, float(gap))))
    if "ratio" in figures:
        figures["ratio_max"] = ratio_max
    return figures, widest


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
            f"in training than in sampling, by more than rounding ({rounding:g}), so RL would train a model other "
            "than the one that was sampled; no weight was changed: choose another model, and please report this one"
        )


def _tokens(batch: Batch, number: int, scores: Scores, old: Tensor) -> Tokens:
    """The part of the batch that pass `number` scored, with the denominators of the whole batch."""
    rows = batch.responses(number)

    def part(values: Tensor | None) -> Tensor | None:
        return None if values is None else values[rows] if values.ndim == 1 else values[rows, : scores.mask.shape[-1]]

    return Tokens(
        logp=scores.logp,
        mask=scores.mask,
        groups=batch.total_groups,
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
