"""Code outside the package, as a person has it beside a study or in an installed package."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hargo import fingerprint
from hargo.config import tables
from hargo.config.extend import TABLES

TASK = """
from hargo.tasks import Task, Verdict


def reward(outputs, references):
    return [float(output == reference) for output, reference in zip(outputs, references, strict=True)]


def judge(outputs, references):
    return [Verdict(output or None, output == reference) for output, reference in zip(outputs, references, strict=True)]


TASK = Task("shout", "Shouting", max_new_tokens=4, reward=reward, judge=judge)
"""
SOURCE = """
from hargo.data.records import Row

TASKS = ("shout",)


def load(options, tasks):
    return [Row(f"shout/{n}", "shout", f"Shout {n}", "A", {}) for n in range(20)]
"""
METHOD = '''
from pydantic import Field

from hargo.config.options import PolicyOptions
from hargo.config.registry import MethodSpec


class LiftedOptions(PolicyOptions):
    """GRPO with lifted advantages."""

    lift: float = Field(0.0, ge=0, description="Added to every advantage.")


METHOD = MethodSpec("Lifted GRPO", "lifted_loss", LiftedOptions)
'''
LOSS = '''
"""GRPO with lifted advantages."""

from dataclasses import replace

from hargo.methods import grpo


class Method(grpo.Method):
    def shares(self, signals):
        shares = super().shares(signals)
        return replace(shares, advantages=shares.advantages + self.options.lift)
'''
TRAINER = """
from hargo.config.registry import MethodSpec, TrainerSpec
from hargo.config.options import OptimOptions

TRAINER = TrainerSpec("still_training", "rl", "nothing")
METHOD = MethodSpec("Standing still", "still_training", OptimOptions, trainer="still")
"""
FILES = {
    "shout.py": TASK,
    "words.py": SOURCE,
    "lifted.py": METHOD,
    "lifted_loss.py": LOSS,
    "still.py": TRAINER,
    "still_training.py": "import torch\n\n\ndef train(job):\n    job.perform(lambda folder: None, 1)\n",
    "echo.py": "import torch\n\n\ndef open_sampler(options, model, tokenizer, batch_rows): ...\n",
}
EXTEND = {
    "tasks": {"shout": "shout:TASK"},
    "sources": {"words": "words"},
    "methods": {"lifted": "lifted:METHOD", "still": "still:METHOD"},
    "trainers": {"still": "still:TRAINER"},
    "samplers": {"echo": "echo"},
}


def write(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def install(site: Path, name: str, points: Mapping[str, Mapping[str, str]], files: Mapping[str, str] = FILES) -> Path:
    """A distribution as an installer leaves it in a folder of Python's path. points: group -> name -> code."""
    info = site / f"{name}-1.0.dist-info"
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {code}\n" for key, code in entries.items())
        for group, entries in points.items()
    ]
    write(
        info,
        {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "entry_points.txt": "\n".join(groups)},
    )
    return write(site, files)


@contextmanager
def forgotten() -> Iterator[None]:
    """What is made known within it is unknown after it."""
    kept = [(table, dict(table), dict(table.named)) for table in TABLES.values()]
    modules, path, folders = set(sys.modules), list(sys.path), list(tables.FOLDERS)
    _forget()
    yield
    for table, entries, named in kept:
        table.clear()
        table.update(entries)
        table.named = named
    for name in set(sys.modules) - modules:
        if not name.startswith(("hargo", "torch")):
            del sys.modules[name]
    sys.path[:], tables.FOLDERS[:] = path, folders
    _forget()


def _forget() -> None:
    for table in TABLES.values():
        vars(table).pop("installed", None)
    fingerprint._files.cache_clear()
    fingerprint._read.cache_clear()
