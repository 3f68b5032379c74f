"""Whole studies whose truth is known, and how often the report's verdicts on them are wrong.

    python tests/support/simulated.py            # writes the table of docs/evidence.md again, some minutes

Rows differ in how hard they are, in the same way for all models; every seed has an SFT model that is better or worse by
chance (1.5 points), and the method trained from it scatters by .5 points more. On seven rows of ten it answers with
the SFT model's luck, on the others with its own. Where rows come in groups, a group is answered alike.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import report_tree

from hargo.config import Study
from hargo.data.records import Row
from hargo.evaluation import statistics
from hargo.evaluation.predictions import Answer, Prediction
from hargo.evaluation.statistics import LEVEL
from hargo.report import two_studies
from hargo.report.comparisons import gap, mcnemar
from hargo.report.results import Model, Results
from hargo.report.sections.ablation import controls

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence.md"
BEGIN, END = "<!-- simulated studies -->", "<!-- end of simulated studies -->"
SEEDS = (1, 2, 3, 5, 16)
GAINS = (0.0, 3.0)
ROWS = 500
STUDIES = {0.0: 500, 3.0: 200}
DRAWS = 1000  # of the bootstrap, a quarter of the report's
METHOD = "shuffled"  # a control, so that the report has a verdict on it as such, too
#: verdict -> heading; the last where rows and seeds, or rows only, are the same in both studies
VERDICTS = {
    "gap": "method against SFT",
    "control": "control flagged",
    "mcnemar": "McNemar, one seed",
    "versus": "two studies, other seeds",
}


@dataclass(frozen=True)
class World:
    """A kind of study. groups: per row its group; gain: by how many points the method is truly better than SFT."""

    seeds: int
    groups: tuple[int, ...]
    gain: float = 0.0

    @lru_cache  # noqa: B019
    def rows(self) -> list[Row]:
        """Questions with a family for each group."""
        return [Row(f"mlperf/{i:05d}", "mlperf", f"q{i}", "8", {"family": f"f{g}"}) for i, g in enumerate(self.groups)]

    def level(self, rng: np.random.Generator) -> np.ndarray:
        """How likely a right answer is, [groups]."""
        return 0.15 + 0.7 * rng.beta(2, 1, max(self.groups) + 1)

    def answers(self, rng: np.random.Generator, level: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Right or wrong answers of the SFT models and of the method's, [seeds, rows] each."""
        numbers = np.array(self.groups)
        shape = self.seeds, numbers.max() + 1
        luck, other = rng.random(shape), rng.random(shape)
        sft = (self.level(rng) if level is None else level) + rng.normal(0, 0.015, (self.seeds, 1))
        method = sft + rng.normal(0, 0.005, (self.seeds, 1)) + self.gain / 100
        own = np.where(rng.random(shape) < 0.7, luck, other)
        return (luck < sft)[:, numbers], (own < method)[:, numbers]


def apart(count: int = ROWS) -> tuple[int, ...]:
    """Every row is a group of its own."""
    return tuple(range(count))


def together(count: int = ROWS) -> tuple[int, ...]:
    """Groups of three to eight rows."""
    sizes = np.random.default_rng(0).integers(3, 9, count)
    return tuple(np.repeat(np.arange(count), sizes)[:count].tolist())


def results(world: World, rng: np.random.Generator, first: int = 0, level: np.ndarray | None = None) -> Results:
    """A study of SFT and one method, in memory; its seeds are numbered from `first` on."""
    seeds = list(range(first, first + world.seeds))
    rows = world.rows()
    models = {
        name: [Model(name, seed, _predictions(rows, right), {}, {"em": 100 * float(right.mean())})
               for seed, right in zip(seeds, side, strict=True)]
        for name, side in zip(("sft", METHOD), world.answers(rng, level), strict=True)
    }  # fmt: skip
    return Results(_study(tuple(seeds)), Path(), [], rows, {}, models, {}, {}, {}, None, None)


@lru_cache
def _study(seeds: tuple[int, ...]) -> Study:
    return report_tree.study(seeds=list(seeds), tasks=["mlperf"], methods={METHOD: None})


def _predictions(rows: list[Row], right: np.ndarray) -> list[Prediction]:
    return [
        Prediction(
            id=row.id,
            task=row.task,
            reference="",
            answers=(Answer(parsed=None, correct=ok, scores={"em": float(ok)}, output="", reward=None),),
        )
        for row, ok in zip(rows, right.tolist(), strict=True)
    ]


def verdicts(world: World, rng: np.random.Generator) -> dict[str, bool]:
    """Whether each verdict of the report says that something is different."""
    study = results(world, rng, level=(level := world.level(rng)))
    found = gap(study, METHOD, "sft", "em")
    other = two_studies.difference(
        study, results(World(world.seeds, world.groups), rng, 100, level), METHOD, "em", True
    )
    assert found is not None and other is not None
    (line,) = [line for block in controls(study) for line in getattr(block, "items", [])]
    return {
        "gap": found.reading.startswith("more than"),
        "control": "misbehaved" in line or "flagged" in line,
        "mcnemar": mcnemar(study, "sft")[0][4] < LEVEL,
        "versus": other.p < LEVEL,
    }


def shares(world: World, studies: int) -> dict[str, float]:
    """In how many of a hundred studies each verdict says that something is different."""
    rng = np.random.default_rng([world.seeds, len(set(world.groups)), int(world.gain)])
    told = [verdicts(world, rng) for _ in range(studies)]
    return {name: 100 * sum(one[name] for one in told) / studies for name in VERDICTS}


def table() -> str:
    """Markdown: per kind of study, the share of each verdict in percent with its Monte Carlo standard error."""
    statistics.DRAWS = DRAWS
    lines = [
        f"| Rows | Seeds | True gain | {' | '.join(VERDICTS.values())} |",
        "| --- |" + " ---: |" * (2 + len(VERDICTS)),
    ]
    for name, groups in (("apart", apart()), ("in groups", together())):
        for gain, studies in STUDIES.items():
            for seeds in SEEDS:
                found = shares(World(seeds, groups, gain), studies)
                cells = [f"{v:.1f} ± {(v * (100 - v) / studies) ** 0.5:.1f}" for v in found.values()]
                lines.append(f"| {name} | {seeds} | {gain:g} | {' | '.join(cells)} |")
                print(lines[-1], f"{time.process_time():.0f} s", file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
