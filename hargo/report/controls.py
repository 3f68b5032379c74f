"""Did each negative control behave? In words, from the gap to the method it is held against."""

from __future__ import annotations

from hargo.report.blocks import Block, Items, Text
from hargo.report.compare import Gap, gap
from hargo.report.results import Results, title
from hargo.report.tables import METRICS, metrics_of

#: control -> the method it is held against, what it does, and whether it may come out ahead
CONTROLS = {
    "shuffled": ("sft", "learns from rewards permuted within each group and must not beat SFT", False),
    "frozen_c": ("b1", "has a constant for c, so that its weights are B1's and it must not beat B1", False),
    "oracle": ("grpo", "is told each prompt's task and weighs by hand, so that it may beat GRPO", True),
}


def controls(results: Results) -> list[Block]:
    """One line per control of the study; nothing where it has none."""
    lines = [line for name in CONTROLS if name in results.models for line in _line(results, name)]
    if not lines:
        return []
    return [
        Text(
            "Controls are runs whose outcome is known beforehand; where one misbehaves, doubt the study before the "
            "method. A gap counts if it is more than other rows and other seeds explain (p below .05)."
        ),
        Items(lines),
    ]


def _line(results: Results, name: str) -> list[str]:
    against, does, may_win = CONTROLS[name]
    if against not in results.models:
        return [f"{title(name)}: {does}; {title(against)} is not in this study to hold it against."]
    found = [gap(results, name, against, metric) for metric in _metrics(results)]
    ahead = [g for g in found if g is not None and g.distinguishable and g.gap > 0]
    if not ahead:
        verdict = f"it is not ahead of {title(against)} on any metric"
        return [
            f"{title(name)}: {does}. It behaved: {verdict}." if not may_win else f"{title(name)}: {does}; {verdict}."
        ]
    told = ", ".join(_told(results, g) for g in ahead)
    word = "" if may_win else "It misbehaved: "
    return [f"{title(name)}: {does}. {word}it is ahead of {title(against)} on {told}."]


def _metrics(results: Results) -> list[str]:
    """The headline metrics that every model has, SFT included."""
    return [key for key in metrics_of(results) if key in METRICS and key != "win_rate"]


def _told(results: Results, found: Gap) -> str:
    name, decimals = metrics_of(results)[found.metric]
    return f"{name} by {found.gap:.{decimals}f}"
