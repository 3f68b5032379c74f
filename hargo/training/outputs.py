"""What a run of training writes: model/, kept/ (its models that other runs start from), metrics.jsonl and run.json.

They are also kept beside the checkpoints, with weights as hard links that take no space. If outputs are removed, as by
a workflow when a job is stopped right after its training, they can be restored without training twice.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hargo.io import atomic_folder, copy_file, read_jsonl, write_json
from hargo.layout import kept_model
from hargo.models.load import save_model

logger = logging.getLogger(__name__)

TREES = ("model", "kept")
FILES = ("metrics.jsonl", "run.json")


def finished(folder: Path, budget: int) -> Path:
    """Where the outputs of a run of so many steps are kept in its folder of checkpoints."""
    return folder / f"finished-{budget}"


def write(out: Path, model: Any, tokenizer: Any, folder: Path, record: dict[str, Any]) -> None:
    """The outputs of a run that has ended, with what it wrote to its folder of checkpoints while it trained."""
    save_model(out / "model", model, tokenizer)
    _link(folder / "kept", out / "kept")
    metrics = folder / "metrics.jsonl"
    copy_file(metrics, out / "metrics.jsonl")
    # a resumed run took longer than its last process: count the steps of all of them
    steps = sum(step["seconds"] for step in read_jsonl(metrics))
    write_json(out / "run.json", {**record, "wall_seconds": round(max(record["wall_seconds"], steps), 1)})


def keep(out: Path, folder: Path, budget: int) -> bool:
    """Keep the outputs in `folder`; False on file systems without hard links, where weights would take space twice."""
    try:
        with atomic_folder(finished(folder, budget)) as temporary:
            for name in TREES:
                _copy(out / name, temporary / name, os.link)
            for name in FILES:
                copy_file(out / name, temporary / name)
    except OSError as error:
        logger.info("the last checkpoint is kept, since the outputs cannot be hard-linked (%s)", error.strerror)
        return False
    return True


def kept(folder: Path, budget: int, starts: Sequence[int] = ()) -> bool:
    """Whether a run has ended and its outputs are kept in `folder`, with what it was at these numbers of tokens."""
    where = finished(folder, budget)
    return where.is_dir() and all(kept_model(where / "kept", tokens).is_dir() for tokens in starts)


def bring_back(folder: Path, budget: int, out: Path) -> None:
    """Write the outputs kept in `folder` to `out` again."""
    for name in TREES:
        _link(finished(folder, budget) / name, out / name)
    for name in FILES:
        copy_file(finished(folder, budget) / name, out / name)


def forget(folder: Path, but: int | None = None) -> None:
    """Delete what is kept in `folder`, except for the outputs of a run of `but` steps."""
    for where in folder.glob("finished-*"):
        if but is None or where != finished(folder, but):
            shutil.rmtree(where, ignore_errors=True)
    if but is None:
        shutil.rmtree(folder / "kept", ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    """A folder again as `target`, empty where there is none: weights as hard links where that can be."""
    with atomic_folder(target) as temporary:
        if source.is_dir():
            _copy(source, temporary, _link_or_copy)


def _copy(source: Path, target: Path, weights: Any) -> None:
    """Everything below `source` to `target`; `weights` copies files of weights, which nobody edits."""
    shutil.copytree(
        source,
        target,
        dirs_exist_ok=True,
        copy_function=lambda old, new: (weights if old.endswith(".safetensors") else shutil.copyfile)(old, new),
    )


def _link_or_copy(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)
