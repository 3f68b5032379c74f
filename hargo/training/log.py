"""What a run writes as it goes: JSON lines, TensorBoard, and a progress line now and then."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hargo.io import write_jsonl

logger = logging.getLogger(__name__)


def quantiles(values: Sequence[float]) -> list[float]:
    """[min, p10, p25, p50, p75, p90, max] of values, or [] of none."""
    if not len(values):
        return []
    return [float(q) for q in np.quantile(np.asarray(values, dtype=np.float64), [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])]


def _finite(value: Any) -> Any:
    """A figure as JSON can hold it: None for NaN and infinities, which JSON lacks."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def records(path: Path, last: int) -> list[dict[str, Any]]:
    """The records in a metrics.jsonl up to step `last`, in order, without lines that a crash has torn.

    A torn line of a later step does not matter, since that step is done again. Where one of the steps up to `last` is
    lost, a copy of the file as it was is kept beside the new one.
    """
    steps: dict[int, dict[str, Any]] = {}
    damaged = []
    if not path.is_file():
        return []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            steps[int(record["step"])] = record
        except (ValueError, TypeError, KeyError):
            damaged.append(number)
    missing = last - sum(1 <= step <= last for step in steps)
    if missing > 0:
        copy = path.with_name(f"damaged-{path.name}")
        shutil.copyfile(path, copy)
        lines = ", ".join(map(str, damaged)) or "none"
        logger.warning(
            "%s: %d of %d steps cannot be read (damaged lines: %s); copy kept as %s", path, missing, last, lines, copy
        )
    return [steps[step] for step in sorted(steps) if step <= last]


class StepLog:
    """metrics.jsonl and TensorBoard events in `folder`; records of steps after `resumed` are dropped on opening.

    resumed: then the records up to there
    """

    def __init__(self, folder: Path, resumed: int, total: int, title: str):
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        self.resumed = records(self.path, resumed)
        write_jsonl(self.path, self.resumed)
        self.file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=resumed + 1)
        self.title, self.total, self.shown, self.started = title, total, 0.0, time.monotonic()
        self.first = resumed
        self.bar = _bar(title, resumed, total) if sys.stderr.isatty() else None

    def write(self, record: dict[str, Any]) -> None:
        record = {key: _finite(value) for key, value in record.items()}
        self.file.write(json.dumps(record, allow_nan=False) + "\n")
        self.file.flush()
        step = record["step"]
        for key, value in record.items():
            if isinstance(value, int | float) and key != "step":
                self.board.add_scalar(key, value, step)
            elif key.startswith("dist/") and value and None not in value:
                for name, place in (("p10", 1), ("p50", 3), ("p90", 5)):
                    self.board.add_scalar(f"{key}/{name}", value[place], step)
        self._show(record)

    def sync(self) -> None:
        """Before a checkpoint: what was logged must outlive what is resumed."""
        os.fsync(self.file.fileno())
        self.board.flush()

    def _show(self, record: dict[str, Any]) -> None:
        step, now = record["step"], time.monotonic()
        parts = ["loss not finite" if record["loss"] is None else f"loss {record['loss']:.4f}"]
        for name, key, digits in (("reward", "reward/mean", 3), ("kl", "kl", 4)):
            if record.get(key) is not None:
                parts.append(f"{name} {record[key]:.{digits}f}")
        parts.append(f"{record['tokens'] / max(record['seconds'], 1e-9):.0f} tokens/s")
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=step, figures=", ".join(parts))
        elif now - self.shown >= 10 or step == self.total:
            self.shown = now
            left = (now - self.started) / (step - self.first) * (self.total - step)
            logger.info("%s: step %d/%d, %s, %.0f s left", self.title, step, self.total, ", ".join(parts), left)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
        self.file.close()
        self.board.close()


def _bar(title: str, done: int, total: int) -> Progress:
    """A progress bar on standard error with a place for the figures of the step."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    bar = Progress(*columns, console=Console(stderr=True))
    bar.add_task(title, total=total, completed=done, figures="")
    bar.start()
    return bar
