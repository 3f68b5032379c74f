"""What the report says, section by section, in words that follow from the numbers."""

from __future__ import annotations

from collections.abc import Callable

from hargo.report.blocks import Block, Browser, Figure, Section
from hargo.report.results import Results, title
from hargo.report.sections import (
    ablation,
    calibration,
    classes,
    cluster,
    evidence,
    external,
    gap,
    headline,
    heterogeneity,
    leakage,
    predictions,
    provenance,
    questions,
    short,
    training,
)

#: anchor, title, content; a section without content is left out
SECTIONS: tuple[tuple[str, str, Callable[[Results], list[Block]]], ...] = (
    ("short", "In short", short.blocks),
    ("results", "Results", headline.blocks),
    ("evidence", "What is more than noise", evidence.blocks),
    ("gap", "{subject} against {rival}", gap.blocks),
    ("training", "Training", training.blocks),
    ("classes", "Answers by class", classes.blocks),
    ("external", "DataRaceBench", external.blocks),
    ("calibration", "Calibration", calibration.blocks),
    ("questions", "Questions", questions.blocks),
    ("ablation", "Ablation", ablation.blocks),
    ("heterogeneity", "How the tasks differ", heterogeneity.blocks),
    ("leakage", "Leakage and memorisation", leakage.blocks),
    ("predictions", "Predictions", predictions.blocks),
    ("provenance", "Provenance", provenance.blocks),
    ("cluster", "Cluster jobs", cluster.blocks),
)


def sections(results: Results, figures: set[str], rows: bool = True) -> list[Section]:
    """All sections; `figures` names the figures that could be drawn, `rows` asks for the browsable predictions."""
    names = {"subject": title(results.subject or ""), "rival": title(results.rival or "")}
    kept = []
    for anchor, heading, content in SECTIONS:
        blocks = [block for block in content(results) if _shown(block, figures, rows)]
        if blocks:
            kept.append(Section(anchor, heading.format(**names), blocks))
    return kept


def _shown(block: Block, figures: set[str], rows: bool) -> bool:
    if isinstance(block, Figure):
        return block.name in figures
    return rows or not isinstance(block, Browser)
