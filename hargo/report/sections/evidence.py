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
    """How gaps are tested, then the gaps and McNemar's tests of each reference, and wins; nothing for a single run."""
    if len(results.models) < 2 or not results.references:
        return []
    content: list[Block] = [
        Text(
            f"{_units(results)} Intervals are paired bootstraps over these groups, with all seeds of both methods on "
            "the same draw. They say how the trained models would compare on other rows. p also accounts for "
            f"seed-to-seed variation: {_paired(results)}, so what counts is how the gap differs from seed to seed. "
            "p is Holm-corrected across methods within each metric. It is not corrected across metrics: expect a false "
            f"mark on about one metric in twenty. A gap counts where the corrected p is below {LEVEL:g}. Otherwise "
            "the reading gives the true difference that the study would have found in four of five cases; a smaller "
            "one would go unnoticed more often."
        )
    ]
    for reference in results.references:
        content += _against(results, reference)
    return [*content, *_wins(results, results.references[0])]


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
    groups = evidence(results).grouping
    sizes = [
        f"{tasks.load(task).title}: {groups.describe([row.id for row in results.eval if row.task == task])}"
        for task in results.tasks
    ]
    return f"Rows of one family, and near-duplicates, count as one observation. {'; '.join(sizes)}."


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
                    f"{one.difference.p:.3f}",
                    f"{one.corrected:.3f}",
                    one.reading,
                ]
            )
    tests = [
        [title(method), str(seed), str(ours), str(theirs), f"{p:.3f}", f"{corrected:.3f}"]
        for method, seed, ours, theirs, p, corrected in mcnemar(results, reference)
    ]
    name = title(reference)
    everything = evidence(results).grouping.describe([row.id for row in results.eval if row.task in results.tasks])
    return [
        Table(
            ["Method", "Metric", f"Difference from {name}", "95 % over rows", "p", "p, Holm", "Reading"],
            rows,
            f"Headline metrics against {name}: {everything}.",
        ),
        Table(
            ["Method", "Seed", "Only this method right", f"Only {name} right", "p", "p, Holm"],
            tests,
            f"Accuracy on all rows against {name} of the same seed: McNemar's exact test, with one sign for each "
            "family or group of near-duplicates, Holm-corrected across this table.",
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
            f"Rewards compared with those of the {title(reference)} model of the same seed. A difference within "
            f"{results.study.evaluation.tie:g} is a tie, which counts half.",
        )
    ]
