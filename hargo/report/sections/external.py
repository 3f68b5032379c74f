"""The report's section on DataRaceBench, where the study has `evaluation.external`."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from hargo.evaluation.external import PARTS, TOOLS, TOOLS_SOURCE
from hargo.io import read_json
from hargo.layout import StudyFolder
from hargo.report.blocks import Block, Table, Text
from hargo.report.results import Results, title
from hargo.report.tables import shown, spread

_COUNTS = ("tp", "fp", "tn", "fn", "undecided")
_SHARES = ("tsr", "f1", "f1_tsr")


def blocks(results: Results) -> list[Block]:
    """One table per part of the kernels, means over seeds; nothing where the study asks for none."""
    if results.study.evaluation.external is None:
        return []
    scored = {name: _figures(results, name) for name in results.models}
    scored = {name: figures for name, figures in scored.items() if figures}
    if not scored:
        return []
    content: list[Block] = [
        Text(
            "These are kernels of DataRaceBench, without their licence, comments, and names and strings that give the "
            "label away. As is usual for race detectors, F1 is over the decided kernels and TSR is the share decided. "
            "A kernel that is too long for the model, or an answer that is neither yes nor no, is undecided."
        )
    ]
    for part in PARTS:
        rows = [
            _row(title(name), [one[part.key] for one in figures])
            for name, figures in scored.items()
            if all(part.key in one for one in figures)
        ]
        if not rows:
            continue
        n = next(one[part.key]["n"] for figures in scored.values() for one in figures if part.key in one)
        caption = f"DataRaceBench, {part.title}: {n} kernels, means over seeds."
        if part.key == "race_c":
            rows += [[tool, *["–"] * 6, f"{f1:.3f}", "–"] for tool, f1 in TOOLS.items()]
            caption += f" Tools: F1 per file on all C/C++ kernels ({TOOLS_SOURCE})."
        elif part.key == "unseen":
            caption += (
                " They appear nowhere in HPC-GPT. With so few kernels, F1 is uncertain by about 18 points either way."
            )
        header = ["Method", "TP", "FP", "TN", "FN", "undecided", "TSR", "F1", "F1 × TSR"]
        content.append(Table(header, rows, caption))
    return content


def _figures(results: Results, method: str) -> list[dict[str, Any]]:
    """Figures per seed, empty unless every seed was scored."""
    at = StudyFolder(results.folder)
    paths = [at.external(method, seed) / "metrics.json" for seed in results.study.seeds]
    return [read_json(path) for path in paths] if all(path.is_file() for path in paths) else []


def _row(name: str, figures: list[dict[str, Any]]) -> list[str]:
    counts = [f"{fmean(one[key] for one in figures):.1f}".removesuffix(".0") for key in _COUNTS]
    return [name, *counts, *(shown(spread([one[key] for one in figures]), 3) for key in _SHARES)]
