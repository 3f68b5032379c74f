"""Which code a stage of a study uses, so that results of other code are not taken for its own."""

from __future__ import annotations

from hargo.config.registry import SAMPLERS, SOURCES, TASKS, TRAINERS
from hargo.config.study import Study
from hargo.config.tables import module_of
from hargo.fingerprint import code_of, digest

#: stage -> the module that does its work
STAGES = {
    "data": "hargo.data.build",
    "audit": "hargo.data.audit",
    "model": "hargo.models.prepare",
    "preferences": "hargo.training.preferences",
    "train": "hargo.training.job",
    "evaluate": "hargo.evaluation.run",
    "external": "hargo.evaluation.external",
    "baselines": "hargo.evaluation.baselines",
    "report": "hargo.report.build",
}


def stage_code(study: Study, stage: str, run: str | None = None) -> dict[str, str]:
    """File -> digest of the code that a stage uses, with the study's tasks, data source and sampler, and `run`'s code.

    stage: a key of `STAGES`; run: a name in the study, for the stage `train`
    """
    folders = study.extend.folders
    modules = [STAGES[stage]]
    if run is not None:
        spec = study.spec(run)
        modules += [spec.module, spec.options.__module__, TRAINERS[spec.trainer].module]
    if "hargo/tasks/__init__.py" in code_of(*modules, folders=folders):  # it finds tasks by name
        modules += [module_of(TASKS[task]) for task in study.tasks]
    if "hargo/rollout/sampler.py" in code_of(*modules, folders=folders):  # so it does samplers
        chosen = study.rl if run is None else study.method(run)
        modules.append(module_of(SAMPLERS[getattr(chosen, "sampler", study.rl.sampler).backend]))
    if stage in ("data", "audit"):
        modules.append(module_of(SOURCES[study.data.source]))
    return code_of(*modules, folders=folders)


def stage_digest(study: Study, stage: str, run: str | None = None) -> str:
    """Eight hex digits of `stage_code`: other digits, other code."""
    return digest(stage_code(study, stage, run))
