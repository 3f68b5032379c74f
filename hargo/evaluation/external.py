"""DataRaceBench as an external test set: how a model compares with published race detectors, in their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hargo import provenance
from hargo.config import Study
from hargo.config.options import DataOptions
from hargo.data import drb
from hargo.data.programs import LANGUAGES
from hargo.data.records import load_rows
from hargo.errors import UserError
from hargo.evaluation import predictions as files
from hargo.evaluation.confusion import confusion
from hargo.evaluation.predictions import Prediction
from hargo.io import write_json

#: kernels from this number on appear nowhere in HPC-GPT
UNSEEN = 180

#: race detectors on the C/C++ kernels, per file; F1 between 0 and 1
TOOLS = {
    "Coderrect": 0.911,
    "Intel Inspector": 0.873,
    "ThreadSanitizer": 0.873,
    "ROMP": 0.810,
    "LLOV": 0.748,
}
TOOLS_SOURCE = "Lin and Liao, Correctness 2021"


@dataclass(frozen=True)
class Part:
    """Some of the kernels: `key` in metrics.json, title, tasks, and the lowest kernel number."""

    key: str
    title: str
    tasks: tuple[str, ...]
    first: int = 0

    def of(self, predictions: Sequence[Prediction]) -> list[Prediction]:
        return [p for p in predictions if p.task in self.tasks and (p.number or 0) >= self.first]


PARTS = (
    Part("race_c", "C/C++", ("race_c",)),
    Part("race_fortran", "Fortran", ("race_fortran",)),
    Part("unseen", f"DRB{UNSEEN} and later", tuple(LANGUAGES), UNSEEN),
)


def tool_figures(predictions: Sequence[Prediction]) -> dict[str, float]:
    """TP, FP, TN, FN, undecided; TSR = decided / all; F1 of the decided; F1 x TSR. Shares between 0 and 1.

    These are the figures of race detectors, whose F1 leaves out what they cannot decide;
    TSR makes up for that. In contrast,
    the data-race F1 of the report counts an undecided race as missed.
    """
    counts = confusion(predictions)
    tp, fp, tn, fn = (counts[key] for key in ("tp", "fp", "tn", "fn"))
    decided = tp + fp + tn + fn
    tsr = decided / len(predictions) if predictions else 0.0
    f1 = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0
    return {
        "n": len(predictions),
        **{key: counts[key] for key in ("tp", "fp", "tn", "fn", "undecided")},
        "too_long": sum(p.too_long for p in predictions),
        "tsr": tsr,
        "f1": f1,
        "f1_tsr": f1 * tsr,
    }


def score(study: Study, model: Path, data: Path, out: Path, folder: Path | None = None) -> dict[str, Any]:
    """Answer the kernels below `folder` (by default `evaluation.external`); write predictions and metrics to `out`.

    The words around a kernel are those of the study's training rows in `data`. A kernel that does not fit the
    model's context is undecided. Returns part -> figures, for the parts that have kernels.
    """
    from hargo.evaluation.run import answer

    where = folder or study.evaluation.external
    if where is None:
        raise UserError("no folder to score; give --path, or set evaluation.external in the study")
    tasks = [task for task in study.tasks if task in LANGUAGES]
    if not tasks:
        raise UserError(
            f"none of the study's tasks ({', '.join(study.tasks)}) is about data races, "
            "and DataRaceBench has nothing else"
        )
    rows = drb.load(DataOptions(source="drb", path=str(where)), tasks)
    rows = drb.reframe(rows, drb.frames_of(load_rows(data / "train.jsonl")))
    predictions = [
        replace(p, number=row.meta["number"]) for p, row in zip(answer(study, model, rows), rows, strict=True)
    ]
    figures = {part.key: tool_figures(mine) for part in PARTS if (mine := part.of(predictions))}
    out.mkdir(parents=True, exist_ok=True)
    files.write(out / "predictions.jsonl", predictions)
    write_json(out / "metrics.json", figures)
    write_json(out / "run.json", provenance.record(study, stage="external", model=str(model), folder=str(where)))
    return figures
