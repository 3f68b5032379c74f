"""Reads results/<study>/: everything that the report needs, or an error that says what to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from hargo import tasks
from hargo.config import METHODS, Study
from hargo.data.records import Row, load_rows
from hargo.errors import UserError
from hargo.evaluation import predictions as files
from hargo.evaluation.baselines import FILES
from hargo.evaluation.headline import WIN_RATE, metrics
from hargo.evaluation.metrics import compare, summarise
from hargo.evaluation.predictions import Prediction
from hargo.layout import StudyFolder
from hargo.report import records
from hargo.report.paper import PAPER, PAPER_TASKS
from hargo.tasks import Pool


def title(method: str) -> str:
    """A method's name for people; one that a study defines itself has no other name."""
    return METHODS[method].title if method in METHODS else method


@dataclass(frozen=True)
class Model:
    """One evaluated model, or one baseline: its predictions and the figures drawn from them.

    figures: flat, metric -> value; see `flatten`
    outcomes: row id -> won, tied or lost against the first reference's model of the same seed
    """

    method: str
    seed: int | None
    predictions: list[Prediction]
    metrics: dict[str, Any]
    figures: dict[str, float]
    outcomes: dict[str, str] = field(default_factory=dict)

    def on(self, tasks: Sequence[str]) -> list[Prediction]:
        """Its predictions on these tasks."""
        return [p for p in self.predictions if p.task in tasks]


@dataclass(frozen=True, eq=False)
class Results:
    """A whole study. `models[method][i]` belongs to seed `study.seeds[i]`; the first reference comes first."""

    study: Study
    folder: Path
    train: list[Row]
    eval: list[Row]
    manifest: dict[str, Any]
    models: dict[str, list[Model]]
    baselines: dict[str, Model]
    training: dict[str, list[list[dict[str, Any]]]]
    runs: dict[str, list[dict[str, Any]]]
    audit: dict[str, Any] | None
    audit_text: str | None

    @cached_property
    def tasks(self) -> list[str]:
        present = {row.task for row in self.eval}
        return [task for task in self.study.tasks if task in present]

    @cached_property
    def pools(self) -> dict[Pool, list[str]]:
        """The tasks with classes, by where their confusion counts go."""
        members: dict[Pool, list[str]] = {}
        for task in self.tasks:
            pool = tasks.load(task).counted_in
            if pool is not None:
                members.setdefault(pool, []).append(task)
        return members

    @property
    def everyone(self) -> dict[str, list[Model]]:
        """Models by method, then baselines by name."""
        return {**self.models, **{name: [model] for name, model in self.baselines.items()}}

    @cached_property
    def subject(self) -> str | None:
        """The run that the report asks about."""
        subject = self.study.subject
        return subject if subject in self.models else None

    @cached_property
    def references(self) -> list[str]:
        """The runs that every other run is compared with."""
        return [name for name in self.study.references if name in self.models]

    @property
    def first_reference(self) -> str | None:
        """The run that WinRate is measured against."""
        return next(iter(self.references), None)

    @property
    def rival(self) -> str | None:
        """The last reference, which the subject is compared with in detail."""
        return next((name for name in reversed(self.references) if name != self.subject), None)

    @property
    def featured(self) -> list[str]:
        """First reference, rival and subject: the runs in figures that have no room for more."""
        return list(dict.fromkeys(name for name in (self.first_reference, self.rival, self.subject) if name))

    @cached_property
    def weighing(self) -> list[str]:
        """The featured runs that have logged how they weigh the responses of a group."""
        return [
            name
            for name in self.featured
            if any(step.get("dist/weight") for log in self.training[name] for step in log)
        ]

    @property
    def main(self) -> list[str]:
        """The methods proper, SFT among them, without ablations and controls."""
        return [method for method in self.models if self.kind(method) == "method"]

    @property
    def ablations(self) -> list[str]:
        """Ablations, then controls."""
        others = [method for method in self.models if method not in self.main]
        return sorted(others, key=lambda method: self.kind(method) == "control")

    def kind(self, method: str) -> str:
        """`method`, `ablation` or `control`."""
        return self.study.spec(method).kind

    @property
    def comparable(self) -> bool:
        """Whether tasks, data and protocol are the paper's, so that its numbers may stand beside these."""
        data = self.study.data
        whole = data.train_limit is None and data.eval_limit is None and data.eval_fraction == 0.1
        same = data.source in ("hpcgpt", "hub") and data.protocol == "paper" and set(self.tasks) == PAPER_TASKS
        return same and whole

    def paper(self, method: str, metric: str) -> float | None:
        """The paper's value, where it may be compared and is known."""
        return PAPER.get(method, {}).get(metric) if self.comparable else None


def read(study: Study, folder: Path) -> Results:
    """Read a study's results; a missing or unfinished part is a UserError that names the command for it."""
    at = StudyFolder(folder)
    for name in ("train.jsonl", "eval.jsonl"):
        _need(at.data / name, f"hargo data build --out {at.data}")
    rows = load_rows(at.data / "eval.jsonl")
    models: dict[str, list[Model]] = {}
    training: dict[str, list[list[dict[str, Any]]]] = {}
    runs: dict[str, list[dict[str, Any]]] = {}
    against = next(iter(study.references), None)
    for method in sorted(study.reported, key=lambda name: name != against):
        models[method] = []
        training[method] = []
        for index, seed in enumerate(study.seeds):
            trained = at.run(method, seed)
            reference = models[against][index] if against is not None and method != against else None
            models[method].append(_model(study, at, method, seed, rows, reference))
            _need(trained / "metrics.jsonl", f"hargo train {method} --seed {seed} --out {trained}")
            training[method].append(records.steps(trained / "metrics.jsonl"))
            _note(runs, f"train {method}", trained)
            _note(runs, "evaluate", at.evaluation(method, seed))
    for run in study.runs().values():
        if not run.evaluated:
            for seed in run.seeds:
                _note(runs, f"train {run.name}", at.run(run.name, seed))
    audit, text, manifest = at.audit / "audit.json", at.audit / "audit.md", at.data / "manifest.json"
    return Results(
        study=study,
        folder=folder,
        train=load_rows(at.data / "train.jsonl"),
        eval=rows,
        manifest=records.mapping(manifest) if manifest.is_file() else {},
        models=models,
        baselines=_baselines(study, at.baselines, models.get(against or "", [])),
        training=training,
        runs=runs,
        audit=records.mapping(audit) if audit.is_file() else None,
        audit_text=text.read_text(encoding="utf-8") if text.is_file() else None,
    )


def _need(path: Path, command: str) -> None:
    if not path.is_file():
        verb, _, rest = command.removeprefix("hargo ").partition(" --")
        raise UserError(
            f"{path}: missing; run the workflow, or `hargo {verb} --config STUDY --{rest}` (see hargo {verb} --help)"
        )


def _model(study: Study, at: StudyFolder, method: str, seed: int, rows: list[Row], reference: Model | None) -> Model:
    where = at.evaluation(method, seed)
    path = where / "predictions.jsonl"
    _need(path, f"hargo evaluate --seed {seed} --model {at.model(method, seed)} --out {where}")
    predictions = files.read(path)
    expected = [row.id for row in rows if row.task in study.tasks]
    if [p.id for p in predictions] != expected:
        raise UserError(
            f"{path}: {len(predictions)} answers do not match the {len(expected)} rows of data/eval.jsonl; "
            f"evaluate {method} seed {seed} again"
        )
    return _measure(study, method, seed, predictions, reference)


def _measure(
    study: Study, method: str, seed: int | None, predictions: list[Prediction], reference: Model | None
) -> Model:
    outcomes = compare(predictions, reference.predictions, study.evaluation.tie) if reference is not None else {}
    summary = summarise(predictions)
    return Model(method, seed, predictions, summary, flatten(predictions, summary, outcomes), outcomes)


def flatten(predictions: list[Prediction], summary: dict[str, Any], outcomes: dict[str, str]) -> dict[str, float]:
    """The tables' figures: race_f1, em, accuracy_<task>, ..., and what else the summary has as a number."""
    figures = {key: float(value) for key, value in summary.items() if isinstance(value, int | float) and key != "n"}
    for name, metric in metrics(summary["tasks"]).items():
        if metric.relevant(predictions) and (outcomes or not metric.relative):
            figures[name] = float(metric.sums(predictions, outcomes).values()[0])
    return figures


def _baselines(study: Study, where: Path, reference: list[Model]) -> dict[str, Model]:
    """Baselines by name; one without an answer to any row is left out. reference: models that WinRate is against."""
    _need(where / "metrics.json", f"hargo baselines --out {where}")
    baselines: dict[str, Model] = {}
    for path in sorted(where.glob("predictions-*.jsonl")):
        rows = files.read(path)
        if not rows:
            continue
        name = _baseline_name(path.stem.removeprefix("predictions-"))
        whole = bool(reference) and len(rows) == len(reference[0].predictions)
        model = _measure(study, name, None, rows, reference[0] if whole else None)
        if whole:  # one answer, compared with the reference's model of each seed
            tie = study.evaluation.tie
            sums = [WIN_RATE.sums(rows, compare(rows, one.predictions, tie)) for one in reference]
            model.figures[WIN_RATE.name] = sum(float(one.values()[0]) for one in sums) / len(sums)
        baselines[name] = model
    order = list(FILES)
    return dict(sorted(baselines.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def _baseline_name(slug: str) -> str:
    def plain(text: str) -> str:
        return "".join(character for character in text.lower() if character.isalnum())

    return next((name for name in FILES if plain(name) == plain(slug)), slug)


def _note(runs: dict[str, list[dict[str, Any]]], stage: str, folder: Path) -> None:
    if (folder / "run.json").is_file():
        runs.setdefault(stage, []).append(records.mapping(folder / "run.json"))
