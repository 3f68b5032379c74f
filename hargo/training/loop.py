"""The one training loop. Batches come from a trainer, an update learns from them; it does the rest, resumably.

Everything that happens at step n is a function of the weights, the optimiser state, the method's saved state, the
seed and n. Nothing else is carried from step to step, so a run that is killed and resumed anywhere is bit-identical.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hargo.config.options import OptimOptions
from hargo.errors import Interrupted, UserError
from hargo.layout import kept_model
from hargo.training import checkpoint
from hargo.training.batch import Batches
from hargo.training.log import StepLog
from hargo.training.signals import asked_to_stop
from hargo.training.update import Update

logger = logging.getLogger(__name__)

#: the record of each step, from the first on, to the reason to end the run there, or None
StopRule = Callable[[dict[str, Any]], str | None]


@dataclass(frozen=True)
class Plan:
    """How long a run is and what happens on the way.

    total: steps; keep: numbers of tokens after which the model is kept, since other runs start from it
    stops: rules that may end it early; each sees every record in order, after a resumption too
    """

    title: str
    total: int
    options: OptimOptions
    keep: tuple[int, ...] = ()
    stops: tuple[StopRule, ...] = ()

    @property
    def horizon(self) -> int:
        """Number of steps that the schedule spans."""
        return self.options.schedule_steps or self.total

    @property
    def schedule(self) -> dict[str, int]:
        """What the learning rates depend on, of the number of steps: only the warm-up if the rate is constant."""
        warm = math.ceil(self.options.warmup * self.horizon)
        return {"warmup": warm} if self.options.schedule == "constant" else {"warmup": warm, "steps": self.horizon}


def learning_rate(options: OptimOptions, step: int, horizon: int) -> float:
    """At 0-based `step`: linear warm-up over a share of the steps, then constant, linear or cosine to zero."""
    warm = math.ceil(options.warmup * horizon)
    if step < warm:
        return options.learning_rate * (step + 1) / (warm + 1)
    done = min(1.0, (step - warm) / max(1, horizon - warm))
    factor = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done))}
    return options.learning_rate * factor[options.schedule]


def run(update: Update, batches: Batches, plan: Plan, folder: Path, keep: Callable[[Path], None]) -> None:
    """Train for all steps of the plan, from the newest checkpoint in `folder` if there is one.

    keep: writes the model to a folder, for other runs to start from
    On SIGTERM or SIGUSR2 it finishes the step, writes a checkpoint and raises Interrupted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begin, tokens = _resume(update, batches, plan, folder)
    log = StepLog(folder, begin, plan.total, plan.title)
    reason = next((ended for record in log.resumed if (ended := _ends(plan, record))), None)
    try:
        with asked_to_stop() as stop:
            for step in range(begin, plan.total):
                if reason:
                    break
                began = time.monotonic()
                rate = learning_rate(plan.options, step, plan.horizon)
                record = update.apply(batches, step, rate)
                seconds = time.monotonic() - began
                record = {"step": step + 1, "learning_rate": rate, **record, "seconds": round(seconds, 4)}
                log.write(record)
                before, tokens = tokens, tokens + record["tokens"]
                for most in plan.keep:
                    if before < most <= tokens:
                        keep(kept_model(folder / "kept", most))
                signal, reason = stop(), _ends(plan, record)
                last = step + 1 == plan.total or reason is not None
                if signal or last or (step + 1) % plan.options.checkpoint_every == 0:
                    log.sync()
                    saved = {"method": batches.method.state_dict(), "tokens": tokens}
                    checkpoint.save(folder, step + 1, update.model, update.optimizers, saved)
                if signal and not last:
                    raise Interrupted(
                        f"{plan.title}: {signal} after step {step + 1} of {plan.total}; checkpoint in {folder}"
                    )
    finally:
        log.close()
    if reason:
        logger.info("%s: ended early, %s", plan.title, reason)
    _check_kept(plan, folder, tokens)


def _resume(update: Update, batches: Batches, plan: Plan, folder: Path) -> tuple[int, int]:
    """Restore the newest checkpoint that the plan can resume from; steps taken and tokens learned from so far."""
    state = checkpoint.load_newest(folder, update.model, update.optimizers, lambda s: _leads_on(plan, folder, s))
    if state is None:
        return 0, 0
    batches.method.load_state_dict(state["method"])
    logger.info("%s: resuming after step %d of %d from %s", plan.title, state["step"], plan.total, folder)
    return state["step"], state["tokens"]


def _leads_on(plan: Plan, folder: Path, state: dict[str, Any]) -> bool:
    """Whether the plan can resume from a checkpoint: not beyond its end, nor past a model to keep that was not kept."""
    behind = [most for most in plan.keep if most <= state["tokens"]]
    return state["step"] <= plan.total and all(kept_model(folder / "kept", most).is_dir() for most in behind)


def _ends(plan: Plan, record: dict[str, Any]) -> str | None:
    """Every rule sees the record; the first reason to end the run here."""
    reasons = [rule(record) for rule in plan.stops]
    return next((reason for reason in reasons if reason), None)


def _check_kept(plan: Plan, folder: Path, tokens: int) -> None:
    """UserError where another run starts from a number of tokens that this one never reached."""
    late = [most for most in plan.keep if not kept_model(folder / "kept", most).is_dir()]
    if late:
        raise UserError(
            f"{plan.title}: it was trained on {tokens} tokens, but another run starts from it at {late[0]}; start "
            "that run earlier, or train this one longer"
        )
