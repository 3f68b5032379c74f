"""Where the numbers came from: a digest of the run.json files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from hargo.report.blocks import Block, Items, Table, Verbatim, Warn
from hargo.report.results import Results


def blocks(results: Results) -> list[Block]:
    """Versions, revision, machine and seconds per stage; a warning where runs of one study differ in versions."""
    runs = [run for stage_runs in results.runs.values() for run in stage_runs]
    if not runs:
        return [Items(["There is no run.json beside the results, so versions and times are unknown."])]
    content: list[Block] = []
    versions = _distinct(_joined(run.get("versions")) for run in runs)
    revisions = _distinct(_revision(run.get("git")) for run in runs)
    if len(versions) > 1 or len(revisions) > 1:
        content.append(
            Warn(
                "Runs of this study differ in their software",
                [f"Revisions: {', '.join(revisions)}.", *(f"Versions: {text}." for text in versions)],
            )
        )
    if any("with changes" in revision for revision in revisions):
        content.append(Warn("Uncommitted changes", ["Some runs used a working tree that was not committed."]))
    content.append(
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
    rows = [[stage, str(len(stage_runs)), *_seconds(stage_runs)] for stage, stage_runs in results.runs.items()]
    content.append(
        Table(
            ["Stage", "Runs", "Seconds, total", "Longest"],
            rows,
            "Times are wall-clock times. Every run.json contains its study.",
        )
    )
    study = yaml.safe_dump(results.study.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    content.append(Verbatim("The study with every key", study, shown=False))
    return content


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
