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
class Measure:
    """A figure of a task in the report: the mean over its rows of a score, of the reward, or of what a function says.

    name: its key in tables and commands; no other task may have the same
    title: column heading, which ends in ` %` where `percent`
    score: a key of `Verdict.scores`; None for the reward; or a function of the judgements of all answers to a row, such
        as `hargo.tasks.sampled.pass_at` gives. A row too long for the model, which has no answer, counts 0 to that
    percent: whether a mean between 0 and 1 is shown as a percentage
    decimals: for tables
    headline: whether it belongs in the headline table, where it is tested; else in the task's own table alone
    answers: how many answers to a row it needs, at least; a model that gives fewer does not have the figure
    """

    name: str
    title: str
    score: str | Callable[[Sequence[Verdict]], float] | None = None
    percent: bool = False
    decimals: int = 2
    headline: bool = True
    answers: int = 1


@dataclass(frozen=True)
class Pool:
    """Classification tasks that ask the same question: their confusion counts are added up.

    name: `<name>_f1` and `<name>_accuracy` are the keys of its figures; title: for tables and figures
    """

    name: str
    title: str


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
    positive: for classification the positive class (`"yes"`), as `Verdict.parsed` gives it; F1 is that of this class
    label: for classification, reference -> its class, None where it has none. By default a reference's first whole
        word that is yes or no where `positive` is one of these, else the reference itself
    pool: for classification tasks that are counted together; a task without is counted by itself
    measures: figures beside accuracy and F1. The report tests those marked `headline`, or else F1, or else accuracy
    threshold_sweep: for a score with a threshold, (score name, thresholds) that the report tabulates
    """

    name: str
    title: str
    max_new_tokens: int
    reward: Callable[[Sequence[str], Sequence[str]], Sequence[float | None]]
    judge: Callable[[Sequence[str], Sequence[str]], list[Verdict]]
    prompt: Callable[[str], str] = lambda text: text
    positive: str | None = None
    label: Callable[[str], str | None] | None = None
    pool: Pool | None = None
    measures: tuple[Measure, ...] = ()
    threshold_sweep: tuple[str, tuple[float, ...]] | None = None

    @property
    def counted_in(self) -> Pool | None:
        """The pool of its confusion counts: a shared pool, or one of its own; None where it has no classes."""
        if self.positive is None:
            return None
        return self.pool or Pool(self.name, self.title)
