"""Where the files of a study are: the only module that knows the folders below results/<study>/. Imports no torch.

Names and seeds may be wildcards of a workflow, `{run}` and `{seed}`, in place of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hargo.config import Study
    from hargo.config.runs import Run, Start

Name = str | int


@dataclass(frozen=True)
class StudyFolder:
    """results/<study>/ and what is in it."""

    root: Path

    @classmethod
    def of(cls, study: Study) -> StudyFolder:
        return cls(Path("results") / study.name)

    @property
    def study(self) -> Path:
        """The resolved study that jobs read."""
        return self.root / "study.yaml"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def audit(self) -> Path:
        return self.root / "audit"

    @property
    def verify(self) -> Path:
        """Labels compared with a race detector."""
        return self.root / "verify"

    @property
    def prefetch(self) -> Path:
        """Marks of what was fetched from the network."""
        return self.root / "prefetch"

    @property
    def base(self) -> Path:
        """The base model as it was prepared."""
        return self.root / "model" / "base"

    @property
    def baselines(self) -> Path:
        return self.root / "evaluate" / "baselines"

    @property
    def report(self) -> Path:
        return self.root / "report"

    def run(self, name: str, seed: Name) -> Path:
        """What a run writes: model/, kept/, metrics.jsonl and run.json."""
        return self.root / "train" / name / f"seed{seed}"

    def model(self, name: str, seed: Name) -> Path:
        return self.run(name, seed) / "model"

    def kept(self, name: str, seed: Name) -> Path:
        """The models that a run was at numbers of tokens that others start from, in `kept_model`."""
        return self.run(name, seed) / "kept"

    def checkpoints(self, name: str, seed: Name) -> Path:
        return self.root / "checkpoints" / f"{name}-seed{seed}"

    def evaluation(self, name: str, seed: Name) -> Path:
        return self.root / "evaluate" / name / f"seed{seed}"

    def external(self, name: str, seed: Name) -> Path:
        """Answers to DataRaceBench."""
        return self.root / "external" / name / f"seed{seed}"

    def pairs(self, start: Start | str, seed: Name) -> Path:
        """Pairs of answers of the model `start`."""
        return self.root / "preferences" / str(start) / f"seed{seed}"

    def start(self, start: Start, seed: Name) -> Path:
        """The model folder that a start is; seed: of the run that made it."""
        if start.run is None:
            return self.base
        if start.tokens is None:
            return self.model(start.run, seed)
        return kept_model(self.kept(start.run, seed), start.tokens)

    def start_of(self, run: Run, seed: int, runs: dict[str, Run]) -> Path:
        """The model folder that a run of this seed starts from; runs: the study's."""
        return self.start(run.start, seed if run.start.run is None else runs[run.start.run].seed(seed))


def kept_model(kept: Path, tokens: int) -> Path:
    """The folder in `kept` of the model that had learned from so many tokens."""
    return kept / f"tokens-{tokens}"
