"""Does this Fortran OpenMP program have a data race?"""

from hargo.tasks.race import race_task

TASK = race_task("race_fortran", "Data race, Fortran")
