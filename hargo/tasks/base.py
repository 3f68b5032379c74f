"""What a task is: a prompt, a reward, and (written separately) how an answer is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Verdict:
    """The evaluation's reading of one answer; it never looks at the reward.

    parsed: what was read out of the text (`"yes"`, `"no"`, a number, ...) or None where nothing could be
    correct: whether the answer counts as right in the accuracy column
    scores: further per-sample figures, averaged in the report, e.g. `{"em": 1.0}` or `{"similarity": .83}`
    """

    parsed: str | None
    correct: bool
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """One task: everything the pipeline needs to know about it, in one file.

    name: the key in the registry
    title: for tables and figures
    max_new_tokens: bound on generated tokens
    reward: (outputs, references) -> rewards in [0, 1]; the same function for every training method.
        None for a response leaves that response out of its group.
    judge: (outputs, references) -> verdicts; independent of `reward`
    prompt: source prompt -> user message; the identity unless the task wants other words
    positive: for yes/no classification the positive class (`"yes"`), which pools the task into race F1
    threshold_sweep: for a score with a threshold, (score name, thresholds) that the report tabulates
    """

    name: str
    title: str
    max_new_tokens: int
    reward: Callable[[Sequence[str], Sequence[str]], Sequence[float | None]]
    judge: Callable[[Sequence[str], Sequence[str]], list[Verdict]]
    prompt: Callable[[str], str] = lambda text: text
    positive: str | None = None
    threshold_sweep: tuple[str, tuple[float, ...]] | None = None
