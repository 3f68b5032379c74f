# The study, and the few functions that the rules share.
import re
import sys
from pathlib import Path
from shlex import quote
from shutil import which

import hargo
from hargo.cli import workflow as stamps
from hargo.cli.common import write_study
from hargo.config.registry import TRAINERS
from hargo.errors import UserError
from hargo.layout import StudyFolder

from snakemake.exceptions import WorkflowError
from snakemake_interface_executor_plugins.settings import DeploymentMethod

# Jobs use the environment that runs Snakemake, on PATH or not; with --sdm conda, conda's with this hargo.
# They never go to the network: what they need is fetched by the rule prefetch. The number of threads is the
# study's, since floating-point sums depend on it, not what --cores left of it.
if DeploymentMethod.CONDA in workflow.deployment_settings.deployment_method:
    environment = f"PYTHONPATH={quote(str(Path(hargo.__file__).parent.parent))}"
else:
    environment = f"PATH={quote(str(Path(sys.executable).parent))}:$PATH"
shell.prefix(
    "set -euo pipefail; unset OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS; "
    f"export HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 TRANSFORMERS_OFFLINE=1 {environment}; "
)


def checked(function, *arguments):
    """The result of a function of the package, with its errors raised as Snakemake's."""
    try:
        return function(*arguments)
    except UserError as error:
        raise WorkflowError(str(error)) from None


study = checked(
    stamps.study_of,
    config,
    workflow.config_settings,
    workflow.source_path("../../config/demo.yaml"),
)
FOLDER = StudyFolder.of(study)
RESULTS = str(FOLDER.root)
RUNS = study.runs()
SECTIONS = {trainer.section for trainer in TRAINERS.values()}
STARTS = {str(run.start): run.start for run in RUNS.values()}

# The resolved study that jobs read. It is no rule's output: jobs depend on the sections named in their params,
# not on the file, and Snakemake would rerun everything below a changed file (or, with ancient(), nothing).
STUDY = str(FOLDER.study)

# Local files that the study names
DATA_FILES = checked(stamps.data_files, study)
MODEL_FILES = checked(stamps.model_files, study)
EXTERNAL = study.evaluation.external
KERNELS = checked(stamps.kernels, EXTERNAL) if EXTERNAL else []


def code(stage):
    """The code that a stage uses, as a param: a change reruns the stage. Comments do not count."""
    return stamps.code_stamp(study, stage)


def stamp(files):
    """The content of files, as a param: unlike an input's time, it also reveals an older file put in its place."""
    return lambda wildcards: stamps.files_stamp(files)


def options(section, *without, include=None):
    """A section of the study as a rule's params, leaving out keys that cannot change the rule's output."""
    return section.model_dump(
        mode="json", exclude=set(without), include=include and set(include)
    )


def report_options():
    """What the report shows of the study: all but what cannot change a number."""
    shown = options(study, "extend", "prefetch", "methods", *SECTIONS)
    runs = {
        name: options(RUNS[name].options, *RUNS[name].options.free)
        for name in study.reported
    }
    return {**shown, "runs": runs}


COMPUTE = options(study.compute)


include: "starts.smk"
include: "resources.smk"
