"""Runs: everything that a study trains, each with the run that it starts from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hargo.config.options import OptimOptions
from hargo.config.problems import KeyProblem, unknown
from hargo.config.registry import TRAINERS, MethodSpec, TrainerSpec

#: the base model as a start: as it was prepared, or pre-trained where the study pre-trains it
BASE = "base"
_START = re.compile(r"(?P<run>[^@]+)(@(?P<tokens>[1-9][0-9_]*))?")


@dataclass(frozen=True)
class Start:
    """The model that a run begins with.

    run: the run that made it, None for the base model as it was prepared
    tokens: the model that run was when it had learned from so many tokens, None for its last
    """

    run: str | None = None
    tokens: int | None = None

    def __str__(self) -> str:
        return (self.run or BASE) + (f"@{self.tokens}" if self.tokens else "")

    @classmethod
    def parse(cls, text: str) -> Start:
        """`hargo`, or `pretrain@50000`; ValueError for anything else."""
        match = _START.fullmatch(text)
        if match is None:
            raise ValueError(f"start {text!r} is neither a run, such as sft, nor RUN@TOKENS, such as pretrain@50000")
        return cls(match["run"], int(match["tokens"]) if match["tokens"] else None)


@dataclass(frozen=True)
class Run:
    """One thing that a study trains, with each of `seeds`.

    name: of its folder; method: of the registry, `spec` is what that says; options: resolved
    keep: numbers of tokens at which other runs start from it
    """

    name: str
    method: str
    spec: MethodSpec
    start: Start
    options: OptimOptions
    seeds: tuple[int, ...]
    keep: tuple[int, ...] = ()

    @property
    def trainer(self) -> TrainerSpec:
        return TRAINERS[self.spec.trainer]

    @property
    def evaluated(self) -> bool:
        return self.spec.kind != "groundwork"

    def seed(self, seed: int) -> int:
        """The seed of this run that a run of `seed` starts from."""
        return seed if seed in self.seeds else self.seeds[0]


def ordered(runs: Mapping[str, Run]) -> dict[str, Run]:
    """The runs with their `keep`, each behind the one that it starts from; KeyProblem for a start that cannot be."""
    keep: dict[str, set[int]] = {}
    for run in runs.values():
        if run.start.run is not None and run.start.run not in runs:
            problem = unknown("run", run.start.run, [*runs, BASE])
            raise KeyProblem(("methods", run.name, "start"), f"methods.{run.name}.start: {problem}")
        if run.start.run is not None and run.start.tokens is not None:
            keep.setdefault(run.start.run, set()).add(run.start.tokens)
    names = [name for run in runs.values() for name in reversed([*_line(run, runs)])]
    return {
        name: Run(**{**vars(runs[name]), "keep": tuple(sorted(keep.get(name, ())))}) for name in dict.fromkeys(names)
    }


def _line(run: Run, runs: Mapping[str, Run]) -> Iterator[str]:
    """A run, what it starts from, what that starts from, and so on."""
    seen: list[str] = []
    name: str | None = run.name
    while name is not None:
        if name in seen:
            problem = f"runs start from one another: {' from '.join([*seen, name])}"
            raise KeyProblem(("methods", run.name, "start"), f"methods.{run.name}.start: {problem}")
        seen.append(name)
        yield name
        name = runs[name].start.run
