"""What a study found, in sentences: against each reference, then the subject against its rival."""

from __future__ import annotations

from hargo.report.comparisons import Gap, evidence, gap, headline_metrics, limit
from hargo.report.results import Results, title
from hargo.report.tables import METRICS
from hargo.report.words import interval, plain, signed


def verdicts(results: Results) -> list[str]:
    """One sentence per reference: which methods differ from it on the headline metrics, or that none does."""
    sentences = []
    for reference in results.references:
        families = {metric: evidence(results).family(reference, metric) for metric in headline_metrics(results)}
        if not any(families.values()):
            continue
        leads = [
            f"{plain(metric)}: {', '.join(_named(g) for g in apart)}"
            for metric, family in families.items()
            if (apart := [g for g in family.values() if g.distinguishable])
        ]
        name = title(reference)
        if leads:
            sentences.append(f"Distinguishable from {name} (over rows and seeds, Holm-corrected): {'; '.join(leads)}.")
        elif len(results.study.seeds) == 1:
            sentences.append(f"With one seed, no method can be called different from {name}.")
        else:
            sentences.append(f"Nothing is distinguishable from {name} on any headline metric{_unnoticed(families)}.")
    return sentences


def of_subject(results: Results) -> list[str]:
    """The subject against its rival: the first headline metric in full, then the others by whether they differ."""
    if results.subject is None or results.rival is None:
        return []
    subject, rival = results.subject, results.rival
    gaps = [one for metric in METRICS if (one := gap(results, subject, rival, metric))]
    sentences = [_in_full(gaps[0])] if gaps else []
    for distinguishable, words in ((True, "more than noise"), (False, "not distinguishable from noise")):
        names = [f"{plain(g.metric)} ({signed(g.gap, METRICS[g.metric][1])})" for g in gaps[1:]
                 if g.distinguishable == distinguishable]  # fmt: skip
        if names:
            sentences.append(
                f"Differences between {title(subject)} and {title(rival)} that are {words}: {', '.join(names)}."
            )
    return sentences


def _unnoticed(families: dict[str, dict[str, Gap]]) -> str:
    """`; differences could have gone unnoticed on WinRate (below 4.12), ...`: the largest of each metric's methods."""
    widest = [max(family.values(), key=lambda one: one.detectable) for family in families.values() if family]
    limits = [f"{plain(one.metric)} ({limit(one)})" for one in widest if limit(one)]
    return f"; differences could have gone unnoticed on {', '.join(limits)}" if limits else ""


def _named(one: Gap) -> str:
    return f"{title(one.first)} ({signed(one.gap, METRICS[one.metric][1])})"


def _in_full(one: Gap) -> str:
    name, decimals = METRICS[one.metric]
    unit = " points" if "%" in name else ""
    size = f"{abs(one.gap):.{decimals}f}{unit}"
    direction = f"{size} above" if one.gap > 0 else f"{size} below" if one.gap < 0 else "level with"
    test = f"95 % interval over rows {interval(one.interval, decimals)}, corrected p {one.corrected:.3f}"
    return f"{plain(one.metric)}: {title(one.first)} is {direction} {title(one.second)} ({test}): {one.reading}."
