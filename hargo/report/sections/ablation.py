"""Ablations beside the subject and its rival, and whether each control behaved."""

from __future__ import annotations

from hargo.config.methods import CONTROLS
from hargo.report.blocks import Block, Figure, Items, Text
from hargo.report.comparisons import Gap, gap, limit
from hargo.report.marks import method_table
from hargo.report.results import Results, title
from hargo.report.tables import METRICS, metrics_of

#: form of HARGO's weights -> in words
FORMS = {"b1": "B1 by advantage alone", "b2": "B2 by confidence alone", "hargo": "HARGO (B3) by both"}


def blocks(results: Results) -> list[Block]:
    """Forest plot, table, a line per control; nothing for a study without ablations and controls."""
    if not results.ablations:
        return []
    shown = {results.subject, results.rival, *results.ablations}
    metrics = [key for key in metrics_of(results) if key in METRICS]
    table = method_table(results, metrics, _caption(results), [name for name in results.models if name in shown])
    return [*_forest(results), table, *controls(results)]


def _forest(results: Results) -> list[Block]:
    if results.rival is None:
        return []
    rival = title(results.rival)
    return [
        Figure(
            "forest",
            f"What each form changes against {rival}: the square is the gap, the line its 95 % interval over rows. A "
            "square is filled where rows and seeds do not explain the gap, Holm-corrected across all methods.",
            f"Forest plot of the gaps to {rival} with their intervals, one panel per metric",
        )
    ]


def _caption(results: Results) -> str:
    """What the forms are, as far as the study has them."""
    forms = [words for name, words in FORMS.items() if name in results.models]
    last = "; controls last" if any(results.kind(name) == "control" for name in results.ablations) else ""
    if not results.models.keys() & FORMS.keys() & set(results.ablations):
        return f"Headline metrics of ablations{last}."
    return f"Forms of HARGO's weights: {', '.join(forms)}{last}."


def controls(results: Results) -> list[Block]:
    """One line per control of the study; nothing where it has none."""
    lines = [line for name in CONTROLS if name in results.models for line in _line(results, name)]
    if not lines:
        return []
    return [
        Text(
            "Controls are runs whose outcome is known in advance. If one misbehaves, doubt the study before the "
            "method. A gap counts if it is more than other rows and other seeds explain (p below 0.05)."
        ),
        Items(lines),
    ]


def _line(results: Results, name: str) -> list[str]:
    against, does, may_win = CONTROLS[name]
    if against not in results.models:
        return [f"{title(name)}: {does}; this study has no {title(against)} to compare it with."]
    gaps = [one for metric in _metrics(results) if (one := gap(results, name, against, metric)) is not None]
    verdict = _one_seed if len(results.study.seeds) == 1 else _may_win if may_win else _verdict
    return [f"{title(name)}: {does}{verdict(title(against), gaps)}."]


def _one_seed(against: str, gaps: list[Gap]) -> str:
    ahead = _ahead_on_rows(gaps)
    lead = f"it is ahead of {against} on {_leads(ahead)}, more than other rows explain" if ahead else ""
    return ". It cannot be judged with one seed" + (f", but is flagged: {lead}" if ahead else "")


def _may_win(against: str, gaps: list[Gap]) -> str:
    ahead = [g for g in gaps if g.distinguishable and g.gap > 0]
    return (
        f"; it is ahead of {against} on {_leads(ahead)}" if ahead else f"; it is not ahead of {against} on any metric"
    )


def _verdict(against: str, gaps: list[Gap]) -> str:
    ahead = [g for g in gaps if g.distinguishable and g.gap > 0]
    if ahead:
        return f". It misbehaved: it is ahead of {against} on {_leads(ahead)}"
    if perhaps := _ahead_on_rows(gaps):
        return (
            f". It is not cleared: it is ahead of {against} on {_leads(perhaps)}, more than other rows explain, though "
            f"seeds may explain it{_unnoticed(gaps)}"
        )
    return f". It behaved: it is not ahead of {against} on any metric{_unnoticed(gaps)}"


def _ahead_on_rows(gaps: list[Gap]) -> list[Gap]:
    return [g for g in gaps if g.gap > 0 and g.interval[0] > 0]


def _unnoticed(gaps: list[Gap]) -> str:
    """The leads that the study could have missed; nothing where control and method never differ."""
    limits = [f"{_name(one)} ({limit(one)})" for one in gaps if limit(one)]
    return f"; a lead could have gone unnoticed on {', '.join(limits)}" if limits else ""


def _metrics(results: Results) -> list[str]:
    """The headline metrics that every model has: all but WinRate, which the first reference lacks."""
    return [key for key in metrics_of(results) if key in METRICS and key != "win_rate"]


def _leads(gaps: list[Gap]) -> str:
    return ", ".join(f"{_name(g)} by {g.gap:.{_decimals(g)}f}" for g in gaps)


def _name(one: Gap) -> str:
    return METRICS[one.metric][0]


def _decimals(one: Gap) -> int:
    return METRICS[one.metric][1]
