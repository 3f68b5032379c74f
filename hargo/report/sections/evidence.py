"""Every comparison with the references and its test: gaps, McNemar's tests, wins."""

from __future__ import annotations

from hargo import tasks
from hargo.evaluation.statistics import LEVEL
from hargo.report.blocks import Block, Table, Text
from hargo.report.comparisons import evidence, headline_metrics, mcnemar
from hargo.report.results import Results, title
from hargo.report.tables import METRICS
from hargo.report.words import interval, signed


def blocks(results: Results) -> list[Block]:
    """How it is tested; per reference its gaps and McNemar's tests; wins. Nothing for a single run."""
    if len(results.models) < 2 or not results.references:
        return []
    made: list[Block] = [
        Text(
            f"{_units(results)} Intervals are paired bootstraps over these groups, all seeds of both methods on one "
            "draw; they say how the trained models would compare on other rows. p asks for more, how the methods would "
            f"compare with other seeds too: {_paired(results)}, so what counts is "
            "how the gap differs from seed to seed. It is corrected over the methods on each metric (Holm). Over the "
            "metrics it is not, so one metric in twenty may have a false mark. A gap counts where the corrected p is "
            f"below {LEVEL:g}. Where none does, the reading says which true difference the study would have found in "
            "four of five cases; a smaller one would more often go unnoticed."
        )
    ]
    for reference in results.references:
        made += _against(results, reference)
    return [*made, *_wins(results, results.references[0])]


def _paired(results: Results) -> str:
    """Why seeds are paired: the run that all methods start from, where it is one and the same."""
    runs = results.study.runs()
    starts = {runs[name].start for name in results.models if name in runs}
    origins = {start.run for start in starts}
    later = {runs[name].start for name in results.models if name in runs and name not in origins}
    start = next(iter(later)) if len(later) == 1 else None
    if start is None or start.run not in results.models or start.tokens is not None:
        return "methods are compared seed by seed"
    return f"every method of a seed starts from the same {title(start.run)} model"


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
        ),
        Table(
            ["Method", "Seed", "Only it right", f"Only {name} right", "p", "p, Holm"],
            tests,
            f"Accuracy on all rows against {name} of the same seed: McNemar's exact test, with one sign for each "
            "family or group of near-duplicates, corrected over this table.",
        ),
    ]


def _wins(results: Results, reference: str) -> list[Block]:
    rows = []
    for name, models in results.models.items():
        for model in models if name != reference else ():
            counts = [sum(o == kind for o in model.outcomes.values()) for kind in ("won", "tied", "lost")]
            rows.append([title(name), str(model.seed), *map(str, counts), f"{model.figures['win_rate']:.2f}"])
    return [
        Table(
            ["Method", "Seed", "Won", "Tied", "Lost", "WinRate %"],
            rows,
            f"Rewards against the {title(reference)} model of the same seed; equal within "
            f"{results.study.evaluation.tie:g} is a tie, which counts half.",
        )
    ]
