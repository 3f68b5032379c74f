"""Two studies side by side: what differs in how they were run, and which differences in figures are more than noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hargo.config import load_study
from hargo.errors import UserError
from hargo.evaluation import statistics
from hargo.evaluation.headline import WIN_RATE
from hargo.evaluation.metrics import compare
from hargo.evaluation.statistics import Difference, Sums, holm
from hargo.report.blocks import Block, Items, Section, Table, Text
from hargo.report.comparisons import Gap, evidence, matched
from hargo.report.render import markdown
from hargo.report.results import Results, read, title
from hargo.report.tables import metrics_of, over_seeds, shown
from hargo.report.words import interval, signed


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
        else "They answer different evaluation rows, so intervals are those of independent samples and are wider."
    )
    if pairs:
        rows += f" {evidence(one).grouping.describe([row.id for row in one.eval if row.task in one.tasks])}."
    rows += (
        " Both have the same seeds, which are paired too."
        if matched(one.models[shared[0]], two.models[shared[0]]) is not None
        else " Their seeds differ, so the variation between seeds of both counts."
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
    return [Text("Settings that differ:"), Items(lines)] if lines else [Text("No setting differs apart from the name.")]


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
        gaps = {m: gap for m in shared if (gap := difference(one, two, m, metric, paired)) is not None}
        corrected = holm([gap.p for gap in gaps.values()])
        for (method, gap), p in zip(gaps.items(), corrected, strict=True):
            one_gap = Gap(metric, method, method, gap, p, len(gaps))
            values = [shown(over_seeds(results.models[method], metric), decimals) for results in (one, two)]
            bounds = interval(gap.interval, decimals)
            comparison = [signed(gap.gap, decimals), bounds, f"{p:.3f}", one_gap.reading]
            rows.append([title(method), name, *values, *comparison])
    first = one.first_reference if one.first_reference == two.first_reference else None
    return [
        Table(
            ["Method", "Metric", "A", "B", "B − A", "95 % over rows", "p, Holm", "Reading"],
            rows,
            "Means ± standard deviation over seeds. p accounts for rows and seeds and is Holm-corrected across "
            "methods within each metric. A difference that could go unnoticed is smaller than one that four in five "
            "such studies would find."
            + (f" WinRate is against each study's own {title(first)} model." if first else ""),
        )
    ]


def difference(one: Results, two: Results, method: str, metric: str, paired: bool) -> Difference | None:
    """Study two minus study one: seeds paired where both have the same, rows where both answer the same.

    None where either lacks the metric, as of WinRates against different references.
    """
    references = {one.first_reference, two.first_reference}
    if metric == "win_rate" and (method in references or len(references) > 1):
        return None
    first, second = evidence(one), evidence(two)
    ours, theirs = second.sums(method, metric), first.sums(method, metric)
    if ours is None or theirs is None:
        return None
    order = matched(two.models[method], one.models[method])
    if order is not None:
        theirs = Sums(theirs.upper[order], theirs.lower[order])
    groups, others = second.groups(second.ids(method, metric)), first.groups(first.ids(method, metric))
    if paired:
        drawn, count = second.drawn(second.ids(method, metric))
        return statistics.difference(ours, theirs, drawn, count, groups.tolist(), order is not None)
    curves = [
        statistics.redraw(side, statistics.weights(numbers.tolist(), seed=seed))
        for seed, (side, numbers) in enumerate(((ours, groups), (theirs, others)))
    ]
    count = int(min(groups.max(), others.max())) + 1
    unpaired = statistics.from_curves(ours.values(), theirs.values(), curves[0], curves[1], count, order is not None)
    return replace(unpaired, p=max(unpaired.p, statistics.deal_test(ours.pooled(groups), theirs.pooled(others))))


_GAINS = {"won": 1, "tied": 0, "lost": -1}


def _wins(one: Results, two: Results, shared: list[str]) -> list[Block]:
    """B's answers against A's, row by row, for the seeds that both have."""
    rows = []
    tie = one.study.evaluation.tie
    for method in shared:
        for a in one.models[method]:
            for b in two.models[method]:
                if a.seed == b.seed:
                    outcome_of = compare(b.predictions, a.predictions, tie)
                    outcomes = list(outcome_of.values())
                    counts = [outcomes.count(kind) for kind in ("won", "tied", "lost")]
                    rate = float(WIN_RATE.sums(b.predictions, outcome_of).values()[0])
                    gains = [_GAINS[outcome] for outcome in outcomes]
                    p = statistics.flip_test(evidence(one).nets(list(outcome_of), gains))
                    rows.append([title(method), str(a.seed), *map(str, counts), f"{rate:.2f}", f"{p:.3f}"])
    if not rows:
        return []
    header = ["Method", "Seed", "B won", "Tied", "B lost", "WinRate of B %", "p"]
    caption = (
        "Rewards of B's answers against A's of the same seed. p is from the exact sign test with one sign for each "
        "family or group of near-duplicate rows, and is not corrected."
    )
    return [Table(header, rows, caption)]
