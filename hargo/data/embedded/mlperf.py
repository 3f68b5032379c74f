"""Questions on a table of systems in public MLPerf results.

`mlperf.csv` lists what was submitted (system, host processor, accelerator, software, suite), for systems whose
make-up is widely documented. An empty field means not stated here. No measured result is in it.
"""

from __future__ import annotations

import csv
import random
from functools import cache
from importlib.resources import files

from hargo.config.options import EmbeddedOptions
from hargo.data.embedded.questions import Fact, question_rows
from hargo.data.records import Row

#: column -> what a question calls it
LABELS = {
    "submitter": "submitter",
    "processor": "processor",
    "processors": "number of processors",
    "accelerator": "accelerator",
    "accelerators": "number of accelerators",
    "software": "software",
    "suite": "benchmark suite",
}
#: extra ways to ask for a count
COUNTS = {"processors": "How many processors does {s} have?", "accelerators": "How many accelerators does {s} have?"}
#: columns that are asked for together
PAIRS = [("accelerator", "accelerators"), ("submitter", "processor"), ("submitter", "suite"), ("software", "suite")]
_LONGEST_LIST = 4


@cache
def table() -> list[dict[str, str]]:
    """The rows of the table; empty fields are left out."""
    text = files("hargo.data.embedded").joinpath("mlperf.csv").read_text(encoding="utf-8")
    return [{key: value for key, value in row.items() if value} for row in csv.DictReader(text.splitlines())]


def _single(row: dict[str, str], column: str) -> Fact:
    s, label, value = row["system"], LABELS[column], row[column]
    known = [
        (f"What is the {label} of the system {s}?", value),
        (f"What is the {label} if the system is {s}?", value),
        (f"If the system is {s}, what is the {label}?", f"If the system is {s}, the {label} is {value}."),
        (f"Which {label} is listed for {s}?", value),
    ]
    if column in COUNTS:
        known[-1] = (COUNTS[column].format(s=s), value)
    if column != "submitter":
        where = f"if the submitter is {row['submitter']} and the system is {s}"
        known.append((f"What is the {label} {where}?", value))
    unseen = [
        (f"What is the {label} when the system is {s}?", value),
        (f"For the system {s}, what is the {label}?", value),
        (f"Name the {label} of {s}.", value),
    ]
    return Fact(column, known, unseen)


def _pair(row: dict[str, str], one: str, two: str) -> Fact:
    s, first, second = row["system"], LABELS[one], LABELS[two]
    answer = f"{row[one]}, {row[two]}"
    known = [
        (f"What is the {first} and the {second} of the system {s}?", answer),
        (f"What is the {second} and the {first} of the system {s}?", f"{row[two]}, {row[one]}"),
        (f"What is the {first} and the {second} if the system is {s}?", answer),
    ]
    unseen = [(f"Name the {first} and the {second} of {s}.", answer)]
    return Fact("pair", known, unseen)


def _reverse(column: str, value: str, systems: list[str]) -> Fact:
    label, answer = LABELS[column], ", ".join(systems)
    known = [
        (f"Which systems have the {label} {value}?", answer),
        (f"Which systems are listed with the {label} {value}?", answer),
        (f"What are the systems if the {label} is {value}?", answer),
    ]
    return Fact("systems", known, [(f"Name the systems with the {label} {value}.", answer)])


def facts(systems: int | None = None, seed: int = 0) -> list[Fact]:
    """One value of one system, two values of one system, and the systems that share a value.

    systems: how many systems, drawn with `seed`; all of the table if None.
    """
    rows = table()
    if systems is not None and systems < len(rows):
        rows = random.Random(f"{seed}/systems").sample(rows, systems)
    found = []
    for row in rows:
        columns = [column for column in LABELS if column in row]
        found += [_single(row, column) for column in columns]
        found += [_pair(row, one, two) for one, two in PAIRS if one in row and two in row]
    for column in ("submitter", "processor", "accelerator", "suite"):
        groups: dict[str, list[str]] = {}
        for row in rows:
            if column in row:
                groups.setdefault(row[column], []).append(row["system"])
        found += [_reverse(column, v, systems) for v, systems in groups.items() if len(systems) <= _LONGEST_LIST]
    return found


def mlperf_rows(options: EmbeddedOptions) -> list[Row]:
    chosen = facts(options.systems, options.seed)
    return question_rows("mlperf", chosen, options.seed, options.mlperf, options.eval_mlperf)
