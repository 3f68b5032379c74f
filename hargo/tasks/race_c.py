"""Does this C or C++ OpenMP snippet have a data race?"""

from hargo.tasks.race import race_task

TASK = race_task("race_c", "Data race, C/C++")
