"""Rows of the two race tasks: which families, how many of each, never one kernel twice."""

from __future__ import annotations

import random
import re
from itertools import cycle

from hargo.config.options import EmbeddedOptions
from hargo.config.study import unknown
from hargo.data.embedded import dependence, scoping, sync  # noqa: F401 - importing them registers the families
from hargo.data.embedded.c import CWriter
from hargo.data.embedded.family import FAMILIES, Draw, Family
from hargo.data.embedded.fortran import FortranWriter
from hargo.data.embedded.program import Sketch
from hargo.data.records import Row
from hargo.errors import UserError

LANGUAGES = {"race_c": "c", "race_fortran": "fortran"}
PROMPT = "Given the code snippet: {code}\nWill the OpenMP code cause a data race? Answer yes or no."
_TRIES = 300

#: race-free loops on an array of their own, before or after the kernel
_BYSTANDERS = [
    "omp parallel for ?\n  for I in 0..N-1\n    D[I] = D[I] + 1",
    "omp parallel for ?\n  for I in 0..N-1\n    D[I] = I * 2",
    "for I in 1..N-1\n  D[I] = D[I - 1] + 1",
    "omp parallel for reduction(+:V) ?\n  for I in 0..N-1\n    V += D[I]",
    "omp parallel for private(V) ?\n  for I in 0..N-1\n    V = I\n    D[I] = V",
    "omp simd\n  for I in 0..N-1\n    D[I] = D[I] * 2",
]


def masked(code: str) -> str:
    """The code with every identifier replaced by its rank of first appearance; numbers stay."""
    seen: dict[str, str] = {}
    return re.sub(r"[A-Za-z_]\w*", lambda match: seen.setdefault(match[0], f"v{len(seen)}"), code)


def chosen_families(options: EmbeddedOptions) -> list[Family]:
    """The families the options name, in the order of the catalogue; all of them where none is named."""
    for name in options.families:
        if name not in FAMILIES:
            raise UserError(f"data.embedded.families: {unknown('kernel family', name, FAMILIES)}")
    return [family for family in FAMILIES.values() if not options.families or family.name in options.families]


def held_out_families(options: EmbeddedOptions) -> list[str]:
    """Families for evaluation only: known to both languages, from different themes as long as that goes,
    and never the last of a theme, so that each has relatives in training."""
    rng = random.Random(f"{options.seed}/held out")
    themes: dict[str, list[str]] = {}
    for family in chosen_families(options):
        if len(family.languages) == len(LANGUAGES):
            themes.setdefault(family.theme, []).append(family.name)
    order = sorted(themes)
    rng.shuffle(order)
    chosen: list[str] = []
    while len(chosen) < options.held_out_families:
        possible = [theme for theme in order if len(themes[theme]) > 2]
        if not possible:
            raise UserError(
                f"data.embedded.held_out_families: at most {len(chosen)} families can be held out, "
                f"not {options.held_out_families}; choose a smaller number"
            )
        for theme in possible[: options.held_out_families - len(chosen)]:
            chosen.append(themes[theme].pop(rng.randrange(len(themes[theme]))))
    return chosen


def kernel_rows(options: EmbeddedOptions, task: str) -> list[Row]:
    """Training rows, then evaluation rows, of `race_c` or `race_fortran`."""
    language = LANGUAGES[task]
    held_out = held_out_families(options)
    known = [f for f in chosen_families(options) if language in f.languages and f.name not in held_out]
    unseen = [FAMILIES[name] for name in held_out]
    strange = round(options.eval_kernels * options.held_out_share / 2) * 2 if unseen else 0
    maker = _Maker(options, task, language)
    train = maker.rows(known, options.kernels, {"split": "train"})
    names = maker.rows(known, options.eval_kernels - strange, {"split": "eval", "held_out": "names"})
    family = maker.rows(unseen, strange, {"split": "eval", "held_out": "family"})
    evaluation = names + family
    random.Random(f"{options.seed}/{task}/order").shuffle(evaluation)
    parts = [train, evaluation]
    return [
        Row(f"{task}/{number:05d}", task, PROMPT.format(code=code), answer, meta)
        for number, (code, answer, meta) in enumerate(row for part in parts for row in part)
    ]


class _Maker:
    """Makes kernels of one language and remembers all it has made."""

    def __init__(self, options: EmbeddedOptions, task: str, language: str) -> None:
        self.options, self.task, self.language = options, task, language
        self.made: set[str] = set()
        self.shapes: set[str] = set()

    def rows(self, families: list[Family], count: int, meta: dict[str, str]) -> list[tuple[str, str, dict]]:
        """`count` kernels, racy and race-free in turn, the families in turn."""
        evaluation = meta["split"] == "eval"
        rng = random.Random("/".join([str(self.options.seed), self.task, *meta.values()]))
        order = [one for one in sorted(families, key=lambda one: one.name) for _ in range(one.weight)]
        rng.shuffle(order)
        rows, shapes = [], set()
        for number, family in zip(range(0, count, 2), cycle(order), strict=False):
            for racy in (True, False)[: count - number]:
                code, shape = self.fresh(family, racy, rng, evaluation)
                shapes.add(shape)
                rows.append((code, "yes" if racy else "no", {**meta, "family": family.name}))
        self.shapes |= shapes
        rng.shuffle(rows)
        return rows

    def fresh(self, family: Family, racy: bool, rng: random.Random, evaluation: bool) -> tuple[str, str]:
        """A kernel not made before and, for evaluation, not one of training with other names."""
        for _ in range(_TRIES):
            code = make_kernel(family, racy, self.language, rng, evaluation)
            shape = masked(code)
            if code not in self.made and not (evaluation and shape in self.shapes):
                self.made.add(code)
                return code, shape
        raise UserError(
            f"data.embedded.{'eval_' if evaluation else ''}kernels: family {family.name!r} cannot give that many "
            f"different kernels; choose a smaller number"
        )


def make_kernel(family: Family, racy: bool, language: str, rng: random.Random, evaluation: bool) -> str:
    """One complete program of `family`."""
    draw = Draw(rng, language, evaluation, family.small)
    sketch = family.sketch(draw, racy)
    if not sketch.functions and "D[" not in sketch.code and "V" not in sketch.code and rng.random() < 0.08:
        extra = rng.choice(_BYSTANDERS)
        hoisted, rest = re.fullmatch(r"((?:omp threadprivate.*\n)?)(.*)", sketch.code, re.S).groups()  # type: ignore
        parts = [extra, rest] if rng.random() < 0.5 else [rest, extra]
        sketch = Sketch(
            hoisted + "\n".join(parts), sketch.n, sketch.short, None, sketch.print_after, sketch.shared_index
        )
    return write_program(sketch, language, rng, evaluation)


def write_program(sketch: Sketch, language: str, rng: random.Random, evaluation: bool) -> str:
    """The sketch as a complete program with names, types and sizes drawn from `rng`."""
    writer = CWriter if language == "c" else FortranWriter
    return writer(sketch, rng, evaluation).program()
