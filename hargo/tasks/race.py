"""What the two data-race tasks share: yes (a race) or no (none).

Reward and judge are two readings of an answer that never call each other. The reward is strict, since
training teaches the format: the whole answer is `yes` or `no`. The judge is lenient, since evaluation asks
what the model means: the one label that stands as a word anywhere in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hargo.tasks.base import Pool, Task, Verdict

RACES = Pool("race", "Race")

# letters of ASCII only: ignoring case as Unicode does would take the long s of `yeſ` for an s
_LABEL = "([yY][eE][sS]|[nN][oO])"
# a letter with a mark on it is another letter; joiners and marks are no word characters to `re`
_PART = r"[\w\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200d\u2060\u20d0-\u20ff\ufe00-\ufe2f]"
_WHOLE = re.compile(rf"\s*{_LABEL}\s*\.?\s*")
_WORD = re.compile(rf"(?<!{_PART}){_LABEL}(?!{_PART})")


def label(reference: str) -> str | None:
    """The label of a reference: its first word that is yes or no. Some rows go on with code or chatter."""
    match = _WORD.search(reference)
    return match.group(1).lower() if match else None


def reward(outputs: Sequence[str], references: Sequence[str]) -> list[float | None]:
    """1 if the answer is exactly yes or no and right, else 0.

    Case, surrounding white space and one full stop are ignored. A reference without a label rewards nothing.
    """
    rewards: list[float | None] = []
    for output, reference in zip(outputs, references, strict=True):
        whole = _WHOLE.fullmatch(output)
        given = whole.group(1).lower() if whole else None
        rewards.append(1.0 if given is not None and given == label(reference) else 0.0)
    return rewards


def judge(outputs: Sequence[str], references: Sequence[str]) -> list[Verdict]:
    """Read each answer by word boundary; neither label, or both, is None (undecided) and counts as wrong."""
    verdicts = []
    for output, reference in zip(outputs, references, strict=True):
        said = {word.lower() for word in _WORD.findall(output)}
        parsed = said.pop() if len(said) == 1 else None
        verdicts.append(Verdict(parsed, parsed is not None and parsed == label(reference)))
    return verdicts


def race_task(name: str, title: str) -> Task:
    """A data-race task; the positive class is `yes`, and all of them are pooled into one F1."""
    return Task(name, title, max_new_tokens=16, reward=reward, judge=judge, positive="yes", label=label, pool=RACES)
