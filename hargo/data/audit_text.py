"""The audit in words and Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def render(found: dict[str, Any]) -> str:
    """Markdown for the dictionary that `hargo.data.audit.audit` returns."""
    tasks: dict[str, dict[str, Any]] = {name: f for name, f in found["tasks"].items() if "rows" in f}
    parts = ["# Data audit", _sizes(found, tasks), _repeats(tasks)]
    programs = {name: f for name, f in tasks.items() if "tells" in f}
    if programs:
        parts.append(_tells(programs))
    parts.append(_odd(tasks))
    if "split" in found:
        parts.append(_split(found))
    return "\n\n".join(part for part in parts if part) + "\n"


def _sizes(found: dict[str, Any], tasks: dict[str, Any]) -> str:
    rows = []
    for name, f in tasks.items():
        answer, prompt = f["answer_characters"], f["prompt_characters"]
        rows.append(
            [
                name,
                f["rows"],
                f"{answer['mean']:.1f} / {answer['median']:g} / {answer['max']}",
                f"{prompt['mean']:.0f} / {prompt['median']:g} / {prompt['max']}",
                ", ".join(f"{count} {kind}" for kind, count in f["answers"].items() if count),
            ]
        )
    head = ["task", "rows", "answer characters mean / median / max", "prompt characters", "answers"]
    text = f"{found['rows']} rows.\n\n" + _table(head, rows)
    if found["length_ratio"] and len(tasks) > 1:
        text += f"\n\nThe longest mean answer is {found['length_ratio']:g} times the shortest."
    return text


def _repeats(tasks: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f["repeated_prompts"],
            f["repeated_rows"],
            f"{f['conflicts']['prompts']} ({f['conflicts']['rows']})",
            _percent(f["conflicts"]["ceiling"]),
        ]
        for name, f in tasks.items()
    ]
    head = ["task", "repeated prompts", "repeated rows", "prompts with several answers (rows)", "best constant answer"]
    return (
        "## Repeats and conflicts\n\n"
        + _table(head, rows)
        + "\n\nThe last column is the exact-match ceiling of any model that answers a prompt in one way only."
    )


def _tells(programs: dict[str, Any]) -> str:
    rows = []
    for name, f in programs.items():
        tells = f["tells"]
        named = tells["program_name"]
        right = f", right {_percent(named['right'])}" if named["rows"] else ""
        rows.append([name, f"{named['rows']}{right}", len(tells["comments"]), len(tells["strings"]), f["wrapped"]])
    head = ["task", "label in the program name", "in a comment", "race in a string", "fences, quotes or ** around it"]
    return "## Programs that tell their label\n\n" + _table(head, rows)


def _odd(tasks: dict[str, Any]) -> str:
    lines = []
    for name, f in tasks.items():
        for key, words in (
            ("malformed", "answer is not yes or no"),
            ("without_directive", "no OpenMP directive"),
            ("missing_values", "a missing value in the answer"),
            ("blank_prompts", "blank prompt"),
        ):
            if f.get(key):
                lines.append(f"- {name}, {words}: {len(f[key])} ({_ids(f[key])})")
    return "## Odd rows\n\n" + "\n".join(lines) if lines else ""


def _split(found: dict[str, Any]) -> str:
    split = found["split"]
    parts = [
        "## What training has seen of the evaluation rows",
        f"Protocol {split.get('protocol', 'unknown')}: {split['train']} training and {split['eval']} evaluation rows.",
    ]
    for reason, counts in split.get("dropped", {}).items():
        detail = ", ".join(f"{task} {count}" for task, count in counts.items() if task != "total")
        parts.append(f"Dropped, {reason}: {counts['total']} ({detail}).")
    rows = []
    for name, f in found["tasks"].items():
        if "leakage" in f:
            leak = f["leakage"]
            told = leak["told"]
            name_tells = f"{told['rows']}, right {_percent(told['right'])}" if told["rows"] else 0
            shares = (_percent(leak[key]) for key in ("exact", "masked", "near"))
            rows.append([name, leak["rows"], *shares, name_tells])
    head = [
        "task",
        "evaluation rows",
        "same prompt in training",
        "same after masking",
        "training row 90 % similar",
        "label in the program name",
    ]
    parts.append(_table(head, rows))
    parts.append("Masking replaces names, numbers and strings of programs; similarity is measured on what is left.")
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _ids(ids: Sequence[str], most: int = 12) -> str:
    more = f", and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"
