"""What can be told from noise: marks for the headline table, and the section with every comparison and its test."""

from __future__ import annotations

from math import isfinite

from hargo import tasks
from hargo.evaluation.statistics import LEVEL
from hargo.report.blocks import Block, Table, Text
from hargo.report.compare import REFERENCES, Gap, evidence, headline_metrics, limit, mcnemar
from hargo.report.results import Results, title
from hargo.report.tables import METRICS, Row, metrics_of

#: reference -> the mark of what is distinguishable from it
MARKS = dict(zip(REFERENCES, "*†", strict=True))
CAPTION = (
    "In brackets the 95 % interval over rows of that mean, families or near-duplicates drawn together. * differs from "
    "SFT, † differs from GRPO: over rows and seeds, Holm-corrected over the methods, at the 5 % level."
)


def marks(results: Results, method: str, metric: str) -> str:
    """The marks of one cell of the headline table; empty where nothing is distinguishable."""
    found = ""
    for reference, mark in MARKS.items():
        if reference in results.models and metric in METRICS:
            one = evidence(results).family(reference, metric).get(method)
            found += mark if one is not None and one.distinguishable else ""
    return found


def bracket(results: Results, method: str, metric: str, decimals: int) -> str:
    """` [low, high]` of the method's mean, or nothing where there is none."""
    bounds = evidence(results).own(method, metric)
    return f" [{bounds[0]:.{decimals}f}, {bounds[1]:.{decimals}f}]" if bounds else ""


def signed(value: float, decimals: int) -> str:
    return f"{value:+.{decimals}f}".replace("-", "−")


def interval(bounds: tuple[float, float], decimals: int) -> str:
    return f"{signed(bounds[0], decimals)} to {signed(bounds[1], decimals)}"


def annotate(results: Results, rows: list[Row]) -> list[Row]:
    """The summary's rows with interval, corrected p against SFT and GRPO, and marks per headline metric."""
    for row in rows:
        method = row["method"]
        for metric in headline_metrics(results) if method in results.models else ():
            bounds = evidence(results).own(method, metric) or (None, None)
            row |= {f"{metric}_low": bounds[0], f"{metric}_high": bounds[1]}
            for reference in REFERENCES:
                if reference in results.models:
                    one = evidence(results).family(reference, metric).get(method)
                    row[f"{metric}_p_{reference}"] = one and one.corrected
            row[f"{metric}_marks"] = marks(results, method, metric)
    return rows


def verdicts(results: Results) -> list[str]:
    """One sentence per reference: which methods differ from it on the headline metrics, or that none does."""
    said = []
    for reference in REFERENCES:
        others = [name for name in results.models if name != reference]
        if reference not in results.models or not others:
            continue
        families = {metric: evidence(results).family(reference, metric) for metric in headline_metrics(results)}
        told = [
            f"{METRICS[metric][0].removesuffix(' %')}: {', '.join(_named(g) for g in apart)}"
            for metric, family in families.items()
            if (apart := [g for g in family.values() if g.distinguishable])
        ]
        name = title(reference)
        if told:
            said.append(f"Distinguishable from {name} (rows, seeds, Holm-corrected): {'; '.join(told)}.")
        elif len(results.study.seeds) == 1:
            said.append(f"With one seed no method can be called different from {name}.")
        else:
            said.append(f"Nothing is distinguishable from {name} on any headline metric{_unnoticed(families)}.")
    return said


def _unnoticed(families: dict[str, dict[str, Gap]]) -> str:
    """`; a difference could have gone unnoticed on WinRate below 4.12, ...`, the largest of each metric's methods."""
    widest = [max(family.values(), key=lambda one: one.detectable) for family in families.values() if family]
    told = [f"on {METRICS[one.metric][0].removesuffix(' %')} {limit(one)}" for one in widest if limit(one)]
    return f"; a difference could have gone unnoticed {', '.join(told)}" if told else ""


def _named(found: Gap) -> str:
    return f"{title(found.first)} ({signed(found.gap, METRICS[found.metric][1])})"


def table(results: Results) -> list[Row]:
    """One row per metric, reference and method: the gap, its interval over rows, p, p after Holm's correction, ..."""
    rows: list[Row] = []
    for metric in metrics_of(results):
        for reference in REFERENCES:
            family = evidence(results).family(reference, metric) if reference in results.models else {}
            for method, one in family.items():
                row: Row = {"metric": metric, "reference": reference, "method": method, "gap": one.gap}
                row |= {"low": one.interval[0], "high": one.interval[1], "p": one.found.p, "p_holm": one.corrected}
                row |= {"variance_rows": one.found.rows, "variance_seeds": one.found.seeds, "groups": one.found.count}
                rows.append(row | {"detectable": one.detectable if isfinite(one.detectable) else None})
    return rows


def blocks(results: Results) -> list[Block]:
    """The section: how it is tested, gaps against SFT and GRPO, win counts, McNemar's tests."""
    if len(results.models) < 2:
        return []
    made: list[Block] = [
        Text(
            f"{_units(results)} Intervals are paired bootstraps over these groups, all seeds of both methods on one "
            "draw; they say how the trained models would compare on other rows. p asks for more, how the methods would "
            "compare with other seeds too: every method of a seed starts from the same SFT model, so what counts is "
            "how the gap differs from seed to seed. It is corrected over the methods on each metric (Holm). Over the "
            "metrics it is not, so one metric in twenty may have a false mark. A gap counts where the corrected p is "
            f"below {LEVEL:g}. Where none does, the reading says which true difference the study would have found in "
            "four of five cases; a smaller one would more often go unnoticed."
        )
    ]
    for reference in REFERENCES:
        if reference in results.models:
            made += _against(results, reference)
    return [*made, *_wins(results)]


def _units(results: Results) -> str:
    """How many rows each task has and how many groups they form, in a sentence."""
    made = evidence(results).grouping
    told = [
        f"{tasks.load(task).title}: {made.told([row.id for row in results.eval if row.task == task])}"
        for task in results.tasks
    ]
    return f"Rows that are alike count as one. {'; '.join(told)}."


def _against(results: Results, reference: str) -> list[Block]:
    rows = []
    for metric in headline_metrics(results):
        name, decimals = METRICS[metric]
        for method, one in evidence(results).family(reference, metric).items():
            rows.append(
                [
                    title(method),
                    name,
                    signed(one.gap, decimals),
                    interval(one.interval, decimals),
                    f"{one.found.p:.3f}",
                    f"{one.corrected:.3f}",
                    one.reading,
                ]
            )
    tests = [
        [title(method), str(seed), str(ours), str(theirs), f"{p:.3f}", f"{corrected:.3f}"]
        for method, seed, ours, theirs, p, corrected in mcnemar(results, reference)
    ]
    name = title(reference)
    everything = evidence(results).grouping.told([row.id for row in results.eval if row.task in results.tasks])
    return [
        Table(
            ["Method", "Metric", f"Minus {name}", "95 % over rows", "p", "p, Holm", "Reading"],
            rows,
            f"Headline metrics against {name}: {everything}.",
            strong=("HARGO",),
        ),
        Table(
            ["Method", "Seed", "Only it right", f"Only {name} right", "p", "p, Holm"],
            tests,
            f"Accuracy on all rows against {name} of the same seed: McNemar's exact test, with one sign for each "
            "family or group of near-duplicates, corrected over this table.",
            strong=("HARGO",),
        ),
    ]


def _wins(results: Results) -> list[Block]:
    rows = []
    for name, models in results.models.items():
        for model in models if name != "sft" else ():
            counts = [sum(o == kind for o in model.outcomes.values()) for kind in ("won", "tied", "lost")]
            rows.append([title(name), str(model.seed), *map(str, counts), f"{model.figures['win_rate']:.2f}"])
    return [
        Table(
            ["Method", "Seed", "Won", "Tied", "Lost", "WinRate %"],
            rows,
            f"Rewards against the SFT model of the same seed; equal within {results.study.evaluation.tie:g} is a tie, "
            "which counts half.",
            strong=("HARGO",),
        )
    ]
