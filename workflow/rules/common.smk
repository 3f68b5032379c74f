# The study, and the few functions that the rules share.
import re
import sys
from pathlib import Path
from shlex import quote
from shutil import which

import hargo
from hargo.cli.common import write_study
from hargo.config import load_study, study_from
from hargo.errors import UserError

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


def read_study():
    try:
        if workflow.configfiles or "name" in config:
            return study_from(
                config, " + ".join(map(str, workflow.configfiles)) or "--config"
            )
        return load_study(workflow.source_path("../../config/demo.yaml"), config)
    except UserError as error:
        raise WorkflowError(str(error)) from None


study = read_study()
RESULTS = f"results/{study.name}"
METHODS = list(study.methods)

# The resolved study that jobs read. It is no rule's output: jobs depend on the sections named in their params,
# not on the file, and Snakemake would rerun everything below a changed file (or, with ancient(), nothing).
STUDY = f"{RESULTS}/study.yaml"


def data_files():
    """The files of a local data source as inputs, so that an edited file is noticed."""
    if study.data.source == "drb":
        return drb_files(study.data.path)
    if study.data.source != "hpcgpt":
        return []
    files = sorted(Path(study.data.path).glob("*.json"))
    if not files:
        raise WorkflowError(
            f"data.path: no JSON files in {study.data.path}; set it with --config 'data={{path: FOLDER}}'"
        )
    return list(map(str, files))


def drb_files(folder):
    """The kernels of a copy of DataRaceBench."""
    files = sorted(map(str, Path(folder).rglob("DRB*-*.*")))
    if not files:
        raise WorkflowError(f"{folder}: no kernels of DataRaceBench there")
    return files


def options(section, *without, include=None):
    """A section of the study as a rule's params, leaving out keys that cannot change the rule's output."""
    return section.model_dump(
        mode="json", exclude=set(without), include=include and set(include)
    )


def method_options(wildcards):
    return options(study.method(wildcards.method), "checkpoint_every")


def report_options():
    """What the report shows of the study: all but what cannot change a number."""
    shown = options(study, "prefetch", "methods", "pretrain", "sft", "rl")
    return {
        **shown,
        "methods": {
            name: options(study.method(name), "checkpoint_every") for name in METHODS
        },
    }


COMPUTE = options(study.compute)


# Cluster resources: small for a model made here, larger for a real one; a retry gets more.
SMALL = study.model.source == "scratch"
DEVICE = study.compute.device
# With device `auto` and no GPU here, which a login node seldom has, the profile decides.
GPUS = {"cpu": 0, "cuda": 1, "auto": 1 if which("nvidia-smi") else None}[DEVICE]
GPU = {} if GPUS is None else {"gpu": GPUS}


def mem_mb_light(wildcards, attempt):
    return 4000 * attempt


def mem_mb_train(wildcards, attempt):
    return (3000 if SMALL else 16000) * attempt


def runtime_train(wildcards, attempt):
    return (30 if SMALL else 720) * attempt
