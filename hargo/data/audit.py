"""What a data set holds and what would flatter a model trained on it; works for rows of any source.

`audit` measures, `hargo.data.audit_text.render` words it. Row ids stand for rows, so that each figure can be checked.
"""

from __future__ import annotations

import re
from collections import Counter
from statistics import fmean, median
from typing import Any

from hargo.data.audit_text import render
from hargo.data.grammar import has_directive, tokens
from hargo.data.programs import LABELS, LANGUAGES, take_apart, unwrap, wrapped
from hargo.data.protocols import MISSING, Split, by_task
from hargo.data.records import Row
from hargo.data.scrub import label_in_name, telling_text, unit_names
from hargo.data.similarity import NEAR, fingerprint, nearest_at_least

__all__ = ["answer_kind", "audit", "render"]

_NUMBER = re.compile(r"[\d.,]+%?")
_LABEL = re.compile(r"(yes|no)\b")
_ID = re.compile(r"\d+\.\d+-\d{4}")


def audit(rows: list[Row], split: Split | None) -> dict[str, Any]:
    """Figures per task on all rows of a source and, with a split, on how much of evaluation training has seen.

    Keys: `rows`, `length_ratio` (longest to shortest mean answer of the tasks), `tasks` (name -> figures), and with a
    split `split` (its sizes, protocol and what was dropped) and per task `leakage`.
    """
    groups = by_task(rows)
    figures = {task: _task(task, group) for task, group in groups.items()}
    means = [f["answer_characters"]["mean"] for f in figures.values() if f["answer_characters"]["mean"]]
    result: dict[str, Any] = {
        "rows": len(rows),
        "length_ratio": round(max(means) / min(means), 1) if means else None,
        "tasks": figures,
    }
    if split is not None:
        train, evaluation = by_task(split.train), by_task(split.eval)
        keys = ("protocol", "split_seed", "dropped", "near_duplicate_groups")
        result["split"] = {
            "train": len(split.train),
            "eval": len(split.eval),
            **{key: split.report[key] for key in keys if key in split.report},
        }
        for task, group in evaluation.items():
            figures.setdefault(task, {})["leakage"] = _leakage(train.get(task, []), group)
    return result


def answer_kind(answer: str) -> str:
    """number, id (`3.0-2065`), sentence (ends in a full stop), list (has a comma and a space) or name."""
    text = answer.strip()
    if _NUMBER.fullmatch(text):
        return "number"
    if _ID.fullmatch(text):
        return "id"
    if text.endswith("."):
        return "sentence"
    return "list" if ", " in text else "name"


def _task(task: str, rows: list[Row]) -> dict[str, Any]:
    lengths = [len(row.answer) for row in rows]
    result: dict[str, Any] = {
        "rows": len(rows),
        "answer_characters": {"mean": fmean(lengths), "median": median(lengths), "max": max(lengths)},
        "prompt_characters": _prompt_lengths(rows),
        "blank_prompts": [row.id for row in rows if not row.prompt.strip()],
        "missing_values": [row.id for row in rows if MISSING in row.answer],
        **_repeats(rows),
    }
    language = LANGUAGES.get(task)
    if language is None:
        result["answers"] = dict(Counter(answer_kind(row.answer) for row in rows).most_common())
        result["conflicts"] = _conflicts(rows, [row.answer.strip() for row in rows])
        return result
    labels = [row.answer.strip().lower() for row in rows]
    result["answers"] = {label: labels.count(label) for label in LABELS}
    malformed = {row.id for row, label in zip(rows, labels, strict=True) if label not in LABELS}
    result["answers"]["malformed"] = len(malformed)
    result["malformed"] = [row.id for row in rows if row.id in malformed]
    sound = [row for row in rows if row.id not in malformed]
    # some malformed answers go on after the label: the label is what can conflict
    result["conflicts"] = _conflicts(rows, [m[1] if (m := _LABEL.match(label)) else label for label in labels])
    codes = {row.id: take_apart(row.prompt).code for row in rows}
    result["wrapped"] = sum(wrapped(code) for code in codes.values())
    result["without_directive"] = [r.id for r in sound if not has_directive(unwrap(codes[r.id]), language)]
    result["tells"] = _tells(sound, codes, language)
    return result


def _prompt_lengths(rows: list[Row]) -> dict[str, float]:
    lengths = [len(row.prompt) for row in rows]
    return {"mean": fmean(lengths), "median": median(lengths), "max": max(lengths)}


def _repeats(rows: list[Row]) -> dict[str, int]:
    """Rows whose prompt, or prompt and answer, occurred before."""
    prompts = {row.prompt for row in rows}
    pairs = {(row.prompt, row.answer.strip()) for row in rows}
    return {"repeated_prompts": len(rows) - len(prompts), "repeated_rows": len(rows) - len(pairs)}


def _conflicts(rows: list[Row], said: list[str]) -> dict[str, Any]:
    """Prompts with several answers, their rows, and the accuracy (percent) of the best constant answer per prompt.

    said: the answers that are compared, aligned with `rows`
    """
    answers: dict[str, list[str]] = {}
    for row, answer in zip(rows, said, strict=True):
        answers.setdefault(row.prompt, []).append(answer)
    torn = [given for given in answers.values() if len(set(given)) > 1]
    best = sum(max(Counter(given).values()) for given in answers.values())
    return {
        "prompts": len(torn),
        "rows": sum(map(len, torn)),
        "ceiling": 100 * best / len(rows) if rows else None,
    }


def _tells(rows: list[Row], codes: dict[str, str], language: str) -> dict[str, Any]:
    """Where a program says its label: the first program name with yes or no in it, comments and strings."""
    named = right = 0
    comments: list[str] = []
    strings: list[str] = []
    for row in rows:
        code = unwrap(codes[row.id])
        programs = unit_names(code)[0] if language == "fortran" else []
        label = label_in_name(programs[0]) if programs else None
        named += label is not None
        right += label == row.answer.strip().lower()
        stream = tokens(code, language)
        if any(kind == "comment" and telling_text(text) for kind, text in stream):
            comments.append(row.id)
        if any(kind == "string" and re.search(r"\brace\b", text, re.IGNORECASE) for kind, text in stream):
            strings.append(row.id)
    return {
        "program_name": {"rows": named, "right": 100 * right / named if named else None},
        "comments": comments,
        "strings": strings,
    }


def _leakage(train: list[Row], evaluation: list[Row]) -> dict[str, Any]:
    """Percent of evaluation rows whose prompt is in training word for word, after masking, or nearly.

    near: some training row is at least 0.9 similar (`hargo.data.similarity`)
    told: evaluation rows whose program name says yes or no, and how often that is right (percent)
    """
    prompts = {row.prompt for row in train}
    learned, tested = [fingerprint(row) for row in train], [fingerprint(row) for row in evaluation]
    masked = set(learned)
    count = len(evaluation)
    return {
        "rows": count,
        "exact": 100 * sum(row.prompt in prompts for row in evaluation) / count,
        "masked": 100 * sum(sequence in masked for sequence in tested) / count,
        "near": 100 * sum(nearest_at_least(tested, learned, NEAR)) / count,
        "told": _told(evaluation),
    }


def _told(rows: list[Row]) -> dict[str, Any]:
    labels = [
        (label, row.answer.strip().lower())
        for row in rows
        if LANGUAGES.get(row.task) == "fortran"
        for name in unit_names(unwrap(take_apart(row.prompt).code))[0][:1]
        if (label := label_in_name(name))
    ]
    right = sum(label == answer for label, answer in labels)
    return {"rows": len(labels), "right": 100 * right / len(labels) if labels else None}
