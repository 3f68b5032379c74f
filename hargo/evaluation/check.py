"""Verdicts of a model on files of C, C++ and Fortran, and as SARIF for editors and CI."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hargo import __version__
from hargo.config import Study, study_from
from hargo.config.options import PretrainOptions
from hargo.data import drb
from hargo.data.grammar import first_directive, has_directive
from hargo.data.programs import LANGUAGES
from hargo.data.records import Row
from hargo.errors import UserError
from hargo.io import read_json

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class Finding:
    """Verdict on one file. p: P(yes), None where undecided; reason: why undecided; line: first directive."""

    path: Path
    p: float | None
    race: bool | None
    line: int = 1
    reason: str = ""


def study_of(model: Path) -> Study | None:
    """The study that trained a model, from the `run.json` beside its folder; None where there is none."""
    for path in (model.parent / "run.json", model / "run.json"):
        if path.is_file():
            record = read_json(path)
            if not isinstance(record, dict) or not isinstance(record.get("study"), dict):
                raise UserError(f"{path}: does not name a study; give the model's study with --config")
            section = record["study"].get("extend")
            # only a study that a person gives may run code
            if section and (not isinstance(section, dict) or any(section.values())):
                raise UserError(f"{path}: the study has code of its own; if you trust it, give the study with --config")
            return study_from(record["study"], str(path))
    return None


def check(model: Path, paths: Sequence[Path], threshold: float = 0.5, study: Study | None = None) -> list[Finding]:
    """A finding per program among files and folders; a race where P(yes) is at least `threshold`.

    study: the model's, for its system prompt, its words around a program and its threads; see `study_of`
    """
    from hargo.evaluation.choice import choices, p_yes
    from hargo.models.encode import encode
    from hargo.models.load import deterministic, load_model, load_tokenizer, room_of

    files = drb.programs(paths)
    frames = _frames(study) if study else {}
    study = study or Study(name="check", pretrain=PretrainOptions())
    device = deterministic(study)
    tokenizer, policy = load_tokenizer(model), load_model(model, device)
    texts, unread = _read([path for path, _ in files])
    rows = [
        Row(str(path), task, drb.prompt(text, task, frames.get(task), drb.language(path)), "")
        for (path, task), text in zip(files, texts, strict=True)
    ]
    prompts = [example.prompt for example in encode(tokenizer, rows, study.model)]
    room = room_of(policy)
    reasons = [
        unread.get(i) or _undecidable(text, drb.language(path), len(prompt), room)
        for i, (text, (path, _), prompt) in enumerate(zip(texts, files, prompts, strict=True))
    ]
    decidable = [i for i, reason in enumerate(reasons) if not reason]
    choice_of: dict[int, Any] = dict(
        zip(
            decidable,
            choices(policy, tokenizer, [prompts[i] for i in decidable], study.evaluation.batch_size),
            strict=True,
        )
    )
    if decidable and any(choice is None for choice in choice_of.values()):
        raise UserError(f"{model}: its tokenizer begins yes and no with the same token, so it has no P(yes)")
    findings = []
    for i, (path, _) in enumerate(files):
        p = p_yes(choice_of[i]) if i in choice_of else None
        line = first_directive(texts[i], drb.language(path)) or 1
        findings.append(Finding(path, p, None if p is None else p >= threshold, line, reasons[i]))
    return findings


def _read(paths: Sequence[Path]) -> tuple[list[str], dict[int, str]]:
    """The programs' texts, and why some cannot be read: one bad file must not cost the verdicts on the others."""
    texts, reasons = [], {}
    for i, path in enumerate(paths):
        try:
            text = drb.read(path)
        except UserError as error:
            text, reasons[i] = "", str(error).removeprefix(f"{drb.printable(path)}: ")
        if "\0" in text:
            text, reasons[i] = "", "not a text file (it contains a zero byte)"
        texts.append(text)
    return texts, reasons


def _frames(study: Study) -> dict[str, Any]:
    """The words around a program that the study's data source uses; HPC-GPT's for sources of its own."""
    if study.data.source != "embedded":
        return {}
    from hargo.data.embedded.kernels import PROMPT

    before, after = PROMPT.split("{code}")
    return {task: drb.Framed(before, "", after.lstrip("\n")) for task in LANGUAGES}


def _undecidable(text: str, language: str, tokens: int, room: int | None) -> str:
    if not has_directive(text, language):
        return "no OpenMP directive"
    if room is not None and tokens + 1 > room:
        return f"too long: {tokens} tokens, the model has room for {room}"
    return ""


def model_name(model: Path) -> str:
    """The model folder and the stage and seed that made it, where a `run.json` beside it knows."""
    path = model.parent / "run.json"
    record = read_json(path) if path.is_file() else None
    stage = record.get("stage") if isinstance(record, dict) else None
    return drb.printable(f"{model} ({stage})" if stage else str(model))


def sarif(findings: Sequence[Finding], model: str, base: Path) -> dict[str, Any]:
    """A SARIF 2.1.0 log: a warning per race, a notification per file without a verdict.

    base: paths below it are written relative to it, so that CI services find the files of a checkout
    """
    rule = {
        "id": "openmp-data-race",
        "name": "OpenMPDataRace",
        "shortDescription": {"text": "Possible OpenMP data race"},
        "fullDescription": {"text": "A language model judges that this program has a data race. It may be wrong."},
        "defaultConfiguration": {"level": "warning"},
    }
    results = [
        {
            "ruleId": rule["id"],
            "ruleIndex": 0,
            "level": "warning",
            "message": {"text": f"Possible data race: P(yes) {f.p:.3f}, model {model}."},
            "locations": [_location(f, base)],
            "rank": round(100 * (f.p or 0.0), 1),
        }
        for f in findings
        if f.race
    ]
    notes = [
        {"level": "note", "message": {"text": f"No verdict: {f.reason}."}, "locations": [_location(f, base)]}
        for f in findings
        if f.race is None
    ]
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "hargo", "version": __version__, "rules": [rule]}},
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
                "artifacts": [{"location": {"uri": _uri(f.path, base)}} for f in findings],
                "results": results,
                "columnKind": "unicodeCodePoints",
            }
        ],
    }


def _location(finding: Finding, base: Path) -> dict[str, Any]:
    artifact = {"uri": _uri(finding.path, base)}
    return {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": finding.line}}}


def _uri(path: Path, base: Path) -> str:
    """A relative reference below `base`, else a file URI; both percent-encoded."""
    from urllib.parse import quote

    whole = path.resolve()
    if whole.is_relative_to(base.resolve()):
        return quote(os.fsencode(whole.relative_to(base.resolve()).as_posix()))
    return whole.as_uri()
