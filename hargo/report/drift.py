"""Whether this is the study that was run: what every run.json recorded, compared with the study of the report.

Results may come from elsewhere or be older than the study beside them, and a workflow that finds all its files does not
read them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hargo.config import Study
from hargo.config.options import OptimOptions
from hargo.config.study import OF_A_RUN
from hargo.layout import StudyFolder
from hargo.report.records import mapping

logger = logging.getLogger(__name__)

#: options that change no number: when to save, and what is measured when the report is made
_FREE = OptimOptions.free | {"tie", "external"}
#: what of `rl` decides the pairs of answers
_PAIRS = frozenset({"temperature", "max_new_tokens", "train_limit", "max_prompt_tokens"})

Departure = tuple[str, Any, Any]  # option, what the run had, what the study says


def drift(study: Study, folder: Path) -> list[str]:
    """One sentence per option that runs in results/<study>/ (`folder`) had otherwise, with the runs; empty without any.

    A run without run.json, or an option that it does not know, cannot be compared and is left out.
    """
    runs: dict[tuple[str, str, str], list[str]] = {}
    for place, name in dict.fromkeys(_runs(study, folder)):
        path, where = place / "run.json", place.relative_to(folder).as_posix()
        if not path.is_file():
            continue
        for option, was, now in _of_run(study, name, mapping(path)):
            runs.setdefault((option, _shown(was), _shown(now)), []).append(where)
    manifest = StudyFolder(folder).data / "manifest.json"
    for option, was, now in _section(study.data, mapping(manifest) if manifest.is_file() else {}, "data"):
        runs.setdefault((option, _shown(was), _shown(now)), []).insert(0, "data")
    return [f"{option}: the study says {now}, but {was} in {', '.join(of)}" for (option, was, now), of in runs.items()]


def warn(study: Study, folder: Path) -> None:
    """Report the result of `drift` on the terminal."""
    for line in drift(study, folder):
        logger.warning("warning: the study differs from the one that was run: %s", line)


def _runs(study: Study, folder: Path) -> Iterator[tuple[Path, str]]:
    """Every folder of a study with a run.json, and what ran there: a run's name, or a stage."""
    at, runs = StudyFolder(folder), study.runs()
    for run in runs.values():
        for seed in run.seeds:
            yield at.run(run.name, seed), run.name
            yield at.pairs(run.start, seed), "preferences"
    for name in study.reported:
        for seed in study.seeds:
            yield at.evaluation(name, seed), "evaluate"
            yield at.external(name, seed), "external"


def _of_run(study: Study, name: str, run: dict[str, Any]) -> Iterator[Departure]:
    """Where one run departs from the study, in the sections that decide it."""
    recorded = run.get("study")
    if not isinstance(recorded, dict):
        return
    if study.tasks != recorded.get("tasks", study.tasks):
        yield "tasks", recorded["tasks"], study.tasks
    for section in ("data", "model", "compute"):
        yield from _section(getattr(study, section), recorded.get(section), section)
    if name in ("evaluate", "external"):
        yield from _section(study.evaluation, recorded.get("evaluation"), "evaluation")
    elif name == "preferences":
        yield from (f for f in _section(study.rl, recorded.get("rl"), "rl") if f[0].removeprefix("rl.") in _PAIRS)
    else:
        was, now = (recorded.get("methods") or {}).get(name) or {}, study.methods.get(name, {})
        for key in OF_A_RUN:
            values = was.get(key, name), now.get(key, name)
            if values[0] != values[1]:
                yield f"methods.{name}.{key}", *values
        where = f"methods.{name}" if name in study.methods else name
        yield from _section(study.method(name), run.get("options"), where)


def _section(now: BaseModel | None, was: Any, at: str) -> Iterator[Departure]:
    """Options of a section that both know and that differ."""
    if now is None or not isinstance(was, dict):
        return
    plain = now.model_dump(mode="json")
    for key in type(now).model_fields:
        if key not in was or key in _FREE:
            continue
        value = getattr(now, key)
        if isinstance(value, BaseModel) and isinstance(was[key], dict):
            yield from _section(value, was[key], f"{at}.{key}")
        elif plain[key] != was[key]:
            yield f"{at}.{key}", was[key], plain[key]


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
