"""What a study found, in sentences: against each reference, then the subject against its rival."""

from __future__ import annotations

from hargo.report.comparisons import Gap, evidence, gap, headline_metrics, limit
from hargo.report.results import Results, title
from hargo.report.tables import METRICS
from hargo.report.words import interval, plain, signed


def verdicts(results: Results) -> list[str]:
    """One sentence per reference: which methods differ from it on the headline metrics, or that none does."""
    said = []
    for reference in results.references:
        families = {metric: evidence(results).family(reference, metric) for metric in headline_metrics(results)}
        if not any(families.values()):
            continue
        told = [
            f"{plain(metric)}: {', '.join(_named(g) for g in apart)}"
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


def of_subject(results: Results) -> list[str]:
    """The subject against its rival: the first headline metric in full, then the others by whether they differ."""
    if results.subject is None or results.rival is None:
        return []
    subject, rival = results.subject, results.rival
    gaps = [found for metric in METRICS if (found := gap(results, subject, rival, metric))]
    said = [_in_full(gaps[0])] if gaps else []
    for distinguishable, words in ((True, "More than noise"), (False, "Not distinguishable")):
        names = [f"{plain(g.metric)} ({signed(g.gap, METRICS[g.metric][1])})" for g in gaps[1:]
                 if g.distinguishable == distinguishable]  # fmt: skip
        if names:
            said.append(f"{words} between {title(subject)} and {title(rival)}: {', '.join(names)}.")
    return said


def _unnoticed(families: dict[str, dict[str, Gap]]) -> str:
    """`; a difference could have gone unnoticed on WinRate below 4.12, ...`, the largest of each metric's methods."""
    widest = [max(family.values(), key=lambda one: one.detectable) for family in families.values() if family]
    told = [f"on {plain(one.metric)} {limit(one)}" for one in widest if limit(one)]
    return f"; a difference could have gone unnoticed {', '.join(told)}" if told else ""


def _named(found: Gap) -> str:
    return f"{title(found.first)} ({signed(found.gap, METRICS[found.metric][1])})"


def _in_full(found: Gap) -> str:
    name, decimals = METRICS[found.metric]
    unit = " points" if "%" in name else ""
    size = f"{abs(found.gap):.{decimals}f}{unit}"
    direction = f"{size} above" if found.gap > 0 else f"{size} below" if found.gap < 0 else "level with"
    tested = f"95 % interval over rows {interval(found.interval, decimals)}, corrected p {found.corrected:.3f}"
    return f"{plain(found.metric)}: {title(found.first)} {direction} {title(found.second)}; {tested}: {found.reading}."
