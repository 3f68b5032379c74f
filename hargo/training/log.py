"""What a run writes as it goes: JSON lines and TensorBoard, and a line now and then for whoever watches."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hargo.io import read_jsonl, write_jsonl

logger = logging.getLogger(__name__)


def quantiles(values: Sequence[float]) -> list[float]:
    """[min, p10, p25, p50, p75, p90, max] of values, or [] of none."""
    if not len(values):
        return []
    return [float(q) for q in np.quantile(np.asarray(values, dtype=np.float64), [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1])]


class StepLog:
    """metrics.jsonl and TensorBoard events in `folder`; records of steps after `resumed` are dropped on opening."""

    def __init__(self, folder: Path, resumed: int, total: int, title: str):
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        kept = [record for record in self._whole_lines() if record["step"] <= resumed]
        write_jsonl(self.path, kept)
        self.file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - closed by close()
        self.board = SummaryWriter(str(folder / "tensorboard"), purge_step=resumed + 1)
        self.title, self.total, self.shown, self.started = title, total, 0.0, time.monotonic()
        self.first = resumed
        self.live = sys.stderr.isatty()

    def _whole_lines(self) -> list[dict[str, Any]]:
        """Records so far; a last line cut short by a kill is dropped."""
        if not self.path.is_file():
            return []
        text = self.path.read_text(encoding="utf-8")
        if not text.endswith("\n"):
            self.path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")
        return read_jsonl(self.path)

    def write(self, record: dict[str, Any]) -> None:
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()
        step = record["step"]
        for key, value in record.items():
            if isinstance(value, int | float) and key != "step":
                self.board.add_scalar(key, value, step)
            elif key.startswith("dist/") and value:
                self.board.add_scalars(key, dict(zip(("p10", "p50", "p90"), value[1::2][:3], strict=False)), step)
        self._show(record)

    def sync(self) -> None:
        """Before a checkpoint: what was logged must outlive what is resumed."""
        os.fsync(self.file.fileno())
        self.board.flush()

    def _show(self, record: dict[str, Any]) -> None:
        now = time.monotonic()
        step = record["step"]
        if now - self.shown < (0.5 if self.live else 10) and step != self.total:
            return
        self.shown = now
        left = (now - self.started) / max(1, step - self.first) * (self.total - step)
        parts = [f"{self.title}: step {step}/{self.total}", f"loss {record['loss']:.4f}"]
        if "reward/mean" in record:
            parts.append(f"reward {record['reward/mean']:.3f} kl {record['kl']:.4f}")
        parts.append(f"{record['tokens'] / max(record['seconds'], 1e-9):.0f} tokens/s, {left:.0f} s left")
        line = ", ".join(parts)
        if self.live:
            print(f"\r\033[K{line}", end="\n" if step == self.total else "", file=sys.stderr, flush=True)
        else:
            logger.info(line)

    def close(self) -> None:
        self.file.close()
        self.board.close()
