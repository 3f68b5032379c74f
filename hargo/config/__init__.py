"""Study configuration. Imports no torch: `hargo --help` and `snakemake -n` read studies through this."""

from hargo.config.loading import load_study, study_from
from hargo.config.methods import METHODS
from hargo.config.registry import SOURCES, TASKS
from hargo.config.schema import study_schema
from hargo.config.study import Study

__all__ = ["METHODS", "SOURCES", "TASKS", "Study", "load_study", "study_from", "study_schema"]
