"""What can be told from noise: marks for the headline table, and the section with every comparison and its test."""

from __future__ import annotations

from hargo.evaluation.statistics import LEVEL
from hargo.report.blocks import Block, Table, Text
from hargo.report.compare import REFERENCES, Gap, evidence, headline_metrics, mcnemar
from hargo.report.results import Results, title
from hargo.report.tables import METRICS, Row, metrics_of

#: reference -> the mark of what is distinguishable from it
MARKS = dict(zip(REFERENCES, "*†", strict=True))
CAPTION = (
    "In brackets the 95 % interval over rows of that mean. * differs from SFT, † differs from GRPO: over rows and "
    "seeds, Holm-corrected over the methods, at the 5 % level."
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
            said.append(f"Nothing is distinguishable from {name} on any headline metric.")
    return said


def _named(found: Gap) -> str:
    return f"{title(found.first)} ({signed(found.gap, METRICS[found.metric][1])})"


def table(results: Results) -> list[Row]:
    """One row per metric, reference and method: the gap, its interval over rows, p and p after Holm's correction."""
    rows: list[Row] = []
    for metric in metrics_of(results):
        for reference in REFERENCES:
            family = evidence(results).family(reference, metric) if reference in results.models else {}
            for method, one in family.items():
                row: Row = {"metric": metric, "reference": reference, "method": method, "gap": one.gap}
                row |= {"low": one.interval[0], "high": one.interval[1], "p": one.found.p, "p_holm": one.corrected}
                rows.append(row | {"variance_rows": one.found.rows, "variance_seeds": one.found.seeds})
    return rows


def blocks(results: Results) -> list[Block]:
    """The section: how it is tested, gaps against SFT and GRPO, win counts, McNemar's tests."""
    if len(results.models) < 2:
        return []
    strict = results.study.data.protocol == "strict"
    units = "groups of near-duplicate rows" if strict else "rows"
    made: list[Block] = [
        Text(
            f"Intervals are paired bootstraps over {units}, all seeds of both methods on the same draw; they say how "
            "the trained models would compare on other rows. p asks for more, how the methods would compare with other "
            "seeds too, and is corrected over the methods on each metric (Holm). Over the metrics it is not, so one "
            f"metric in twenty may have a false mark. A gap counts where the corrected p is below {LEVEL:g}."
        )
    ]
    for reference in REFERENCES:
        if reference in results.models:
            made += _against(results, reference)
    return [*made, *_wins(results)]


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
    return [
        Table(
            ["Method", "Metric", f"Minus {name}", "95 % over rows", "p", "p, Holm", "Reading"],
            rows,
            f"Headline metrics against {name}.",
            strong=("HARGO",),
        ),
        Table(
            ["Method", "Seed", "Only it right", f"Only {name} right", "p", "p, Holm"],
            tests,
            f"Accuracy on all rows against {name} of the same seed: McNemar's exact test, corrected over this table.",
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
