"""What a run of training leaves: model/, metrics.jsonl and run.json.

They are kept beside the checkpoints too, their weights as hard links that take no room. Whoever removes outputs, as a
workflow does when a job is stopped right after its training, gets them back without training twice.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from hargo.io import atomic_folder, copy_file, read_jsonl, write_json
from hargo.models.load import save_model

logger = logging.getLogger(__name__)

FINISHED = "finished"
FILES = ("metrics.jsonl", "run.json")


def write(out: Path, model: Any, tokenizer: Any, metrics: Path, record: dict[str, Any]) -> None:
    """The outputs of a run that has ended."""
    save_model(out / "model", model, tokenizer)
    copy_file(metrics, out / "metrics.jsonl")
    # a resumed run took longer than its last process: count the steps of all of them
    steps = sum(step["seconds"] for step in read_jsonl(metrics))
    write_json(out / "run.json", {**record, "wall_seconds": round(max(record["wall_seconds"], steps), 1)})


def keep(out: Path, folder: Path) -> bool:
    """Keep the outputs in `folder`; False on file systems without hard links, where weights would need room again."""
    try:
        with atomic_folder(folder / FINISHED) as temporary:
            (temporary / "model").mkdir()
            for path in (out / "model").iterdir():
                (os.link if _weights(path) else copy_file)(path, temporary / "model" / path.name)
            for name in FILES:
                copy_file(out / name, temporary / name)
    except OSError as error:
        logger.info("the last checkpoint is kept in place of hard links to the outputs (%s)", error.strerror)
        return False
    return True


def kept(folder: Path) -> bool:
    """Whether a run has ended and its outputs are kept in `folder`."""
    return (folder / FINISHED).is_dir()


def bring_back(folder: Path, out: Path) -> None:
    """Write the outputs kept in `folder` to `out` again."""
    with atomic_folder(out / "model") as temporary:
        for path in (folder / FINISHED / "model").iterdir():
            try:
                (os.link if _weights(path) else copy_file)(path, temporary / path.name)
            except OSError:
                shutil.copyfile(path, temporary / path.name)
    for name in FILES:
        copy_file(folder / FINISHED / name, out / name)


def forget(folder: Path) -> None:
    """Let go of what is kept in `folder`."""
    shutil.rmtree(folder / FINISHED, ignore_errors=True)


def _weights(path: Path) -> bool:
    """Files that need no copy of their own, since nobody edits them."""
    return path.suffix == ".safetensors"
