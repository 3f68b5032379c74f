"""A study: one YAML file, everything that decides its numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from pydantic import Field, ValidationError, ValidationInfo, field_serializer, field_validator, model_validator

from hargo.config import options as o
from hargo.config.extend import extend
from hargo.config.forms import spelled_out
from hargo.config.methods import METHODS
from hargo.config.problems import KeyProblem, first_problem, unknown
from hargo.config.registry import SOURCES, TASKS, TRAINERS, MethodSpec
from hargo.config.runs import BASE, Run, Start, ordered
from hargo.config.tables import resolve
from hargo.errors import UserError

__all__ = ["Study", "unknown"]

#: methods name folders and reach command lines; the reserved ones stand beside them in results/<study>/
METHOD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
RESERVED = ("pretrain", "sft", "baselines", BASE)
#: keys of a method that say what it is, beside its options
OF_A_RUN = ("method", "start")


class Study(o.Options):
    """One study. `methods` maps a method's name to the options in which it departs from `rl`."""

    name: str = Field(description="Results go to results/<name>/.", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    seeds: list[o.Seed] = Field([0], min_length=1, description="Each pair of method and seed is one job.")
    extend: o.ExtendOptions = o.ExtendOptions()
    data: o.DataOptions = o.DataOptions()
    tasks: list[str] = Field(
        default_factory=lambda read: list(source_tasks(read["data"].source) or ()),
        min_length=1,
        description="Tasks to train and evaluate on; by default all of the data source's.",
    )
    model: o.ModelOptions = o.ModelOptions()
    pretrain: o.PretrainOptions | None = Field(None, description="Only for a model from scratch.")
    sft: o.SFTOptions | None = Field(
        o.SFTOptions(),
        description="`false` for a study without it.",
        json_schema_extra=lambda schema: schema["anyOf"].append({"const": False}),  # type: ignore[union-attr]
    )
    rl: o.RLOptions = o.RLOptions()
    methods: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Runs besides SFT, by method. Under a name of your own, the key `method` says which method it is. "
        "The key `start` names the run to start from: base, sft, another run, or pretrain@TOKENS for that run's model "
        "after so many tokens.",
    )
    sweep: dict[str, dict[str, list[Any]]] = Field(
        default_factory=dict,
        description="Per method, options and the values to try, one at a time: {hargo: {alpha: [0, 0.3, 1]}}.",
    )
    evaluation: o.EvaluationOptions = o.EvaluationOptions()
    report: o.ReportOptions = o.ReportOptions()
    compute: o.ComputeOptions = o.ComputeOptions()
    prefetch: o.PrefetchOptions = o.PrefetchOptions()

    @field_validator("data")
    @classmethod
    def _known_source(cls, value: o.DataOptions) -> o.DataOptions:
        try:
            SOURCES[value.source]
        except ValueError as error:
            raise KeyProblem(("source",), str(error)) from None
        return value

    @field_validator("tasks", mode="before")
    @classmethod
    def _source_says_them(cls, value: Any, info: ValidationInfo) -> Any:
        if value == [] and "data" in info.data and source_tasks(info.data["data"].source) is None:
            raise ValueError(
                f"data.source {info.data['data'].source!r} does not declare its tasks; list them, e.g. [race_c]"
            )
        return value

    @field_validator("tasks")
    @classmethod
    def _known_tasks(cls, value: list[str]) -> list[str]:
        for name in value:
            TASKS[name]  # ValueError where there is none
        if len(set(value)) != len(value):
            raise ValueError("a task is listed twice")
        return value

    @field_validator("seeds")
    @classmethod
    def _distinct_seeds(cls, value: list[int]) -> list[int]:
        if len(set(value)) != len(value):
            raise ValueError("seeds must differ from one another")
        return value

    @field_validator("methods", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: ({} if overrides is None else overrides) for name, overrides in value.items()}
        return value

    @field_validator("methods")
    @classmethod
    def _names_are_folders(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name, overrides in value.items():
            if not isinstance(overrides.get("method", name), str):
                raise KeyProblem((name, "method"), f"{name}: `method` must be the name of a method")
            if not isinstance(overrides.get("start", ""), str):
                raise KeyProblem((name, "start"), f"{name}: `start` must be the name of a run")
            if not METHOD_NAME.fullmatch(name) or name in RESERVED:
                raise ValueError(
                    f"{name!r} cannot name a method; use letters, digits, '.', '_' and '-', beginning with a letter, "
                    f"and none of {', '.join(RESERVED)}"
                )
        return value

    @model_validator(mode="before")
    @classmethod
    def _sweep_is_methods(cls, value: Any) -> Any:
        """Every value of a sweep becomes a method of its own, called `<method>-<option>-<value>`."""
        methods = value.get("methods") or {} if isinstance(value, dict) else None
        if not (isinstance(methods, dict) and isinstance(value.get("sweep"), dict)):
            return value
        methods = dict(methods)
        for method, axes in value["sweep"].items():
            for option, settings in (axes if isinstance(axes, dict) else {}).items():
                if not isinstance(settings, list) or not settings:
                    raise ValueError(f"sweep.{method}.{option}: give a list of values, such as [0.1, 1.0]")
                if any(settings.count(setting) > 1 for setting in settings):
                    raise ValueError(f"sweep.{method}.{option}: a value is listed twice")
                base = methods.get(method) or {}
                if not isinstance(base, dict):
                    return value
                cls._known_option(method, base, option)
                for setting in settings:
                    overrides = {"method": method, **base, option: setting}
                    name = f"{method}-{option}-{setting}"
                    if methods.setdefault(name, overrides) != overrides:
                        raise ValueError(
                            f"methods.{name}: the sweep creates a method of this name; choose another name"
                        )
        return {**value, "methods": methods}

    @model_validator(mode="before")  # runs before the one above
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        return spelled_out(value) if isinstance(value, dict) else value

    @model_validator(mode="before")  # runs first: what it makes known may be named in any section
    @classmethod
    def _known_from_outside(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("extend") is not None:
            extend(value["extend"])
        return value

    @field_serializer("sft")
    def _without_sft(self, sft: o.SFTOptions | None) -> Any:
        """A resolved study says `false`, since an empty section stands for its defaults."""
        return False if sft is None else sft

    @classmethod
    def _known_option(cls, method: str, overrides: dict[str, Any], option: str) -> None:
        """An option of a sweep must be one of its method."""
        base = overrides.get("method", method)
        if not isinstance(base, str) or base not in METHODS:
            raise ValueError(f"sweep.{method}: {unknown('method', base, METHODS.names())}")
        fields = METHODS[base].options.model_fields
        if option not in fields:
            raise ValueError(f"sweep.{method}: {unknown('key', option, fields)}")

    @model_validator(mode="after")
    def _check(self) -> Study:
        declared = source_tasks(self.data.source)
        for name in self.tasks:
            if declared is not None and name not in declared:
                raise KeyProblem(
                    ("tasks",),
                    f"tasks: data.source {self.data.source!r} has no rows for {name!r}, only for "
                    f"{', '.join(declared)}; remove it or use another data.source",
                )
        self._source_agrees()
        if self.model.source == "scratch" and self.pretrain is None:
            raise ValueError("a model from scratch needs a section `pretrain`, such as `pretrain: {steps: 300}`")
        if self.model.source != "scratch" and self.pretrain is not None:
            raise KeyProblem(("pretrain",), "`pretrain` is only for model.source 'scratch'; delete the section")
        if self.evaluation.external and not {"race_c", "race_fortran"} & set(self.tasks):
            problem = "`external` would be ignored, since none of the tasks is race_c or race_fortran; delete the key"
            raise KeyProblem(("evaluation", "external"), f"evaluation: {problem}")
        per_task: dict[tuple[str, str], dict[str, Any]] = {
            ("rl", "max_new_tokens"): self.rl.max_new_tokens,
            ("evaluation", "max_new_tokens"): self.evaluation.max_new_tokens,
            ("sft", "repeat"): self.sft.repeat if self.sft else {},
            ("pretrain", "repeat"): self.pretrain.repeat if self.pretrain else {},
            **{("methods", name): self._by_task(name) for name in self.methods},
        }
        for location, names in per_task.items():
            for name in names:
                if name not in self.tasks:
                    raise KeyProblem((*location, name), unknown(f"task in {'.'.join(location)}", name, self.tasks))
        reported = self.reported
        if not reported:
            raise ValueError("there is nothing to report on; add a section `sft`, or methods")
        subject = [self.report.subject] if self.report.subject else []
        for place, chosen in (("subject", subject), ("references", self.report.references)):
            for name in chosen:
                if name not in reported:
                    raise KeyProblem(("report", place), f"report.{place}: {unknown('run', name, reported)}")
        return self

    def _source_agrees(self) -> None:
        """A data source may have a function `check(options, tasks)`, which reports what it cannot produce."""
        check = getattr(resolve(SOURCES[self.data.source]), "check", None)
        if check is None:
            return
        try:
            check(self.data, self.tasks)
        except UserError as error:
            raise KeyProblem(("data",), str(error)) from None

    def _by_task(self, name: str) -> dict[str, Any]:
        """What the study says per task about a method; a preset may name tasks that a study lacks."""
        self.method(name)  # refuses anything but mappings
        mappings = [self.methods[name].get(key, {}) for key in ("max_new_tokens", "repeat", "task_weights")]
        return {task: value for values in mappings for task, value in values.items()}

    def spec(self, name: str) -> MethodSpec:
        """What a run of this study is; one under a name of its own counts as an ablation of its method."""
        base = self.methods.get(name, {}).get("method", name)
        try:
            spec = METHODS[base]
        except ValueError as error:
            where = "" if base == name else f"methods.{name}: "
            raise KeyProblem(("methods", name), f"{where}{error}") from None
        return spec if base == name else spec._replace(title=name, kind="ablation")

    def method(self, name: str) -> o.OptimOptions:
        """The resolved options of one run: its defaults, then its section (`rl`, `sft`), preset, overrides.

        Of the section it takes the keys that it has and that mean the same to it.
        """
        spec = self.spec(name)
        section: o.OptimOptions | None = getattr(self, TRAINERS[spec.trainer].section)
        keys = set() if section is None else section.model_fields_set & spec.options.model_fields.keys()
        shared = {key: getattr(section, key) for key in keys - spec.options.own}
        overrides = {key: value for key, value in self.methods.get(name, {}).items() if key not in OF_A_RUN}
        try:
            return spec.options.model_validate({**shared, **spec.preset, **overrides})
        except ValidationError as error:
            raise KeyProblem(*first_problem(error, spec.options, ("methods", name))) from None

    def runs(self) -> dict[str, Run]:
        """All that is trained, by name, each run behind the one that it starts from."""
        sections = [name for name in ("pretrain", "sft") if getattr(self, name) is not None]
        names = [*sections, *self.methods]
        runs = {}
        for name in names:
            spec = self.spec(name)
            seeds = (0,) if name == "pretrain" else tuple(self.seeds)
            method = self.methods.get(name, {}).get("method", name)
            runs[name] = Run(name, method, spec, self._start(name, spec, names), self.method(name), seeds)
        return ordered(runs)

    def run(self, name: str) -> Run:
        """One of `runs`; UserError where there is none of that name."""
        runs = self.runs()
        if name in runs:
            return runs[name]
        missing = name in METHODS
        raise UserError(
            f"{name} is not in this study; add it to `methods`" if missing else unknown("run of this study", name, runs)
        )

    def _start(self, name: str, spec: MethodSpec, names: list[str]) -> Start:
        """What a run starts from: as the study says, else as the registry does, as far as the study has it."""
        text = self.methods.get(name, {}).get("start", spec.start if spec.start in names else BASE)
        try:
            start = Start.parse(text)
        except ValueError as error:
            raise KeyProblem(("methods", name, "start"), f"methods.{name}: {error}") from None
        if start.run != BASE:
            return start
        run = "pretrain" if "pretrain" in names and name != "pretrain" else None
        if run is None and start.tokens is not None:
            told = f"start {text!r} needs a run that keeps models, and this study does not pre-train its base model"
            raise KeyProblem(("methods", name, "start"), f"methods.{name}: {told}; write `start: base`")
        return replace(start, run=run)

    @property
    def reported(self) -> list[str]:
        """The runs that are evaluated and that the report is on."""
        return [run.name for run in self.runs().values() if run.evaluated]

    @property
    def subject(self) -> str | None:
        """The run that the report is about: as `report` says, else HARGO, else the first method proper."""
        methods = [name for name in self.reported if name in self.methods and self.spec(name).kind == "method"]
        return self.report.subject or ("hargo" if "hargo" in methods else next(iter(methods), None))

    @property
    def references(self) -> list[str]:
        """The runs that every other is compared with, WinRate with the first: as `report` says, else SFT and GRPO.

        In a study of neither it is the first run that is not the subject.
        """
        others = [name for name in self.reported if name != self.subject]
        usual: list[str] = [name for name in ("sft", "grpo") if name in others]
        return list(self.report.references) or usual or others[:1]


def source_tasks(source: str) -> tuple[str, ...] | None:
    """The tasks that a data source has rows for, None where its module does not say (`TASKS`)."""
    declared = getattr(resolve(SOURCES[source]), "TASKS", None)
    return None if declared is None else tuple(declared)
