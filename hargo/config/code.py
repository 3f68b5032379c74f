"""Which code a stage of a study uses, so that results of other code are not taken for its own."""

from __future__ import annotations

from hargo.config.registry import SOURCES, TASKS
from hargo.config.study import Study
from hargo.fingerprint import code_of, digest

#: stage -> the module that does its work
STAGES = {
    "data": "hargo.data.build",
    "audit": "hargo.data.audit",
    "model": "hargo.models.prepare",
    "pretrain": "hargo.training.stages",
    "sft": "hargo.training.stages",
    "preferences": "hargo.training.pairs",
    "train": "hargo.training.stages",
    "evaluate": "hargo.evaluation.run",
    "external": "hargo.evaluation.external",
    "baselines": "hargo.evaluation.baselines",
    "report": "hargo.report.build",
}


def stage_code(study: Study, stage: str, method: str | None = None) -> dict[str, str]:
    """File -> digest of the code that a stage uses, with the study's tasks, its data source and its `method`.

    stage: a key of `STAGES`; method: a name in the study, for the stage `train`
    """
    modules = [STAGES[stage]]
    if "hargo/tasks/__init__.py" in code_of(STAGES[stage]):  # it finds tasks by name
        modules += [TASKS[task] for task in study.tasks]
    if stage in ("data", "audit"):
        modules.append(SOURCES[study.data.source])
    if method is not None:
        modules.append(study.spec(method).module)
    return code_of(*modules)


def stage_digest(study: Study, stage: str, method: str | None = None) -> str:
    """Eight hex digits of `stage_code`: other digits, other code."""
    return digest(stage_code(study, stage, method))
