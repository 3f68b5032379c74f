"""Where the numbers came from: a digest of the run.json files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from hargo.report.blocks import Block, Items, Table, Verbatim, Warn
from hargo.report.results import Results


def blocks(results: Results) -> list[Block]:
    """Versions, revision, machine and seconds per stage; a warning where runs of one study differ in versions."""
    runs = [run for found in results.runs.values() for run in found]
    if not runs:
        return [Items(["No run.json beside the results: versions and times are unknown."])]
    made: list[Block] = []
    versions = _distinct(_joined(run.get("versions")) for run in runs)
    revisions = _distinct(_revision(run.get("git")) for run in runs)
    if len(versions) > 1 or len(revisions) > 1:
        made.append(
            Warn(
                "Runs of this study differ in their software",
                [f"Revisions: {', '.join(revisions)}.", *(f"Versions: {text}." for text in versions)],
            )
        )
    if any("with changes" in revision for revision in revisions):
        made.append(Warn("Uncommitted changes", ["Some runs used a working tree that was not committed."]))
    made.append(
        Items(
            [
                f"Code: {', '.join(revisions)}.",
                f"Packages: {versions[0]}.",
                f"Python: {', '.join(_distinct(str(run.get('python', 'unknown')) for run in runs))}.",
                f"Processor: {', '.join(_distinct(str(run.get('cpu', 'unknown')) for run in runs))}.",
                f"Device: {', '.join(_distinct(str(run.get('device') or 'unknown') for run in runs))}.",
            ]
        )
    )
    rows = [[stage, str(len(found)), *_seconds(found)] for stage, found in results.runs.items()]
    made.append(Table(["Stage", "Runs", "Seconds, all", "Longest"], rows, "Wall time. Every run.json holds its study."))
    study = yaml.safe_dump(results.study.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    made.append(Verbatim("The study, every key", study, shown=False))
    return made


def _seconds(runs: list[dict[str, Any]]) -> list[str]:
    known = [float(run["wall_seconds"]) for run in runs if run.get("wall_seconds") is not None]
    return [f"{sum(known):.0f}", f"{max(known):.0f}"] if known else ["–", "–"]


def _revision(git: dict[str, Any] | None) -> str:
    if not git:
        return "unknown revision"
    return f"`{str(git.get('revision', 'unknown'))[:12]}`" + (" with changes" if git.get("dirty") else "")


def _joined(versions: dict[str, str] | None) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted((versions or {}).items())) or "unknown"


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
