"""Two studies side by side: what differs in how they were run, and which differences in figures are more than noise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hargo.config import load_study
from hargo.errors import UserError
from hargo.evaluation import statistics
from hargo.evaluation.metrics import compare
from hargo.evaluation.statistics import Difference, holm
from hargo.report import markdown
from hargo.report.blocks import Block, Items, Section, Table, Text
from hargo.report.compare import Evidence, evidence, reading
from hargo.report.evidence import interval, signed
from hargo.report.results import Results, read, title
from hargo.report.rows import relevant, sums
from hargo.report.tables import metrics_of, over_seeds, shown


def versus(first: Path, second: Path) -> str:
    """Markdown on two results folders, `results/<study>/` each; every difference is the second minus the first."""
    one, two = _read(first), _read(second)
    shared = [name for name in one.models if name in two.models]
    if not shared:
        raise UserError(f"{first} and {second} have no method in common")
    pairs = _paired(one, two)
    names = f"A is {first} ({len(one.study.seeds)} seeds), B is {second} ({len(two.study.seeds)} seeds)."
    rows = (
        "Both answer the same evaluation rows, so intervals are paired."
        if pairs
        else "They answer different evaluation rows, so intervals are those of independent samples, and wider."
    )
    blocks: list[Block] = [Text(f"{names} {rows}"), *_settings(one, two), *_figures(one, two, shared, pairs)]
    if pairs:
        blocks += _wins(one, two, shared)
    alone = [title(name) for name in {**one.models, **two.models} if name not in shared]
    if alone:
        blocks.append(Text(f"In one of the two only: {', '.join(alone)}."))
    return markdown.render(
        f"{one.study.name} and {two.study.name}", [Section("versus", "Two studies side by side", blocks)]
    )


def _read(folder: Path) -> Results:
    path = folder / "study.yaml"
    if not path.is_file():
        raise UserError(f"{path}: no such file; give the folder of a finished study, such as results/demo")
    return read(load_study(path), folder)


def _paired(one: Results, two: Results) -> bool:
    def rows(results: Results) -> list[tuple[str, str, str]]:
        return [(row.id, row.prompt, row.answer) for row in results.eval if row.task in results.tasks]

    return rows(one) == rows(two)


def _settings(one: Results, two: Results) -> list[Block]:
    """The keys of the two studies that differ, as A -> B."""
    a, b = dict(_flat(one.study.model_dump(mode="json"))), dict(_flat(two.study.model_dump(mode="json")))
    lines = [
        f"`{key}`: {a.get(key, 'not set')} → {b.get(key, 'not set')}"
        for key in dict.fromkeys([*a, *b])
        if a.get(key) != b.get(key) and key != "name"
    ]
    return [Text("Settings that differ:"), Items(lines)] if lines else [Text("No setting differs but the name.")]


def _flat(value: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, dict) and item:
            yield from _flat(item, f"{before}{key}.")
        else:
            yield f"{before}{key}", item


def _figures(one: Results, two: Results, shared: list[str], paired: bool) -> list[Block]:
    metrics = [metric for metric in metrics_of(one) if metric in metrics_of(two)]
    rows = []
    for metric in metrics:
        name, decimals = metrics_of(one)[metric]
        found = {m: made for m in shared if (made := _difference(one, two, m, metric, paired)) is not None}
        corrected = holm([made.p for made in found.values()])
        for (method, made), p in zip(found.items(), corrected, strict=True):
            values = [shown(over_seeds(results.models[method], metric), decimals) for results in (one, two)]
            bounds = interval(made.interval, decimals)
            told = [signed(made.gap, decimals), bounds, f"{p:.3f}", reading(made, p)]
            rows.append([title(method), name, *values, *told])
    return [
        Table(
            ["Method", "Metric", "A", "B", "B − A", "95 % over rows", "p, Holm", "Reading"],
            rows,
            "Means ± deviation over seeds. p takes rows and seeds into account and is corrected over the methods on "
            "each metric. WinRate is against each study's own SFT model.",
            strong=("HARGO",),
        )
    ]


def _difference(one: Results, two: Results, method: str, metric: str, paired: bool) -> Difference | None:
    if metric == "win_rate" and method == "sft":
        return None
    a, b = evidence(one).curves(method, metric), evidence(two).curves(method, metric)
    if a is None or b is None:
        return None
    if paired:  # the same draw for both, also where their protocols group rows in different ways
        drawn, count = _draw(evidence(one), one, method, metric)
        redrawn = [statistics.redraw(sums(r.models[method], metric), drawn) for r in (two, one)]
        return statistics.from_curves(b[0], a[0], redrawn[0], redrawn[1], count)
    ids = [p["id"] for p in relevant(two.models[method][0].predictions, metric)]
    other = statistics.weights([evidence(two).clusters[name] for name in ids], seed=1)
    redrawn_b = statistics.redraw(sums(two.models[method], metric), other)
    return statistics.from_curves(b[0], a[0], redrawn_b, a[1], min(a[2], b[2]))


def _draw(made: Evidence, results: Results, method: str, metric: str) -> tuple[Any, int]:
    return made.drawn([p["id"] for p in relevant(results.models[method][0].predictions, metric)])


def _wins(one: Results, two: Results, shared: list[str]) -> list[Block]:
    """B's answers against A's, row by row, for the seeds that both have."""
    rows = []
    tie = one.study.evaluation.tie
    for method in shared:
        for a in one.models[method]:
            for b in two.models[method]:
                if a.seed == b.seed:
                    outcomes = list(compare(b.predictions, a.predictions, tie).values())
                    counts = [outcomes.count(kind) for kind in ("won", "tied", "lost")]
                    rate = 100 * (counts[0] + counts[1] / 2) / len(outcomes)
                    p = statistics.sign_test(counts[0], counts[2])
                    rows.append([title(method), str(a.seed), *map(str, counts), f"{rate:.2f}", f"{p:.3f}"])
    if not rows:
        return []
    header = ["Method", "Seed", "B won", "Tied", "B lost", "WinRate of B %", "p"]
    caption = "Rewards of B's answers against A's of the same seed; p is the exact sign test, not corrected."
    return [Table(header, rows, caption, strong=("HARGO",))]
