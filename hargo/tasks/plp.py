"""Questions on programming-language-processing data sets and models: the answer is a sentence.

Reward and judge share the sentence embeddings (`hargo.tasks.embedding`) and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hargo.tasks.base import Measure, Task, Verdict
from hargo.tasks.embedding import cosines

BONUS = 0.05
PENALTY_PER_CHARACTER = 0.001
LARGEST_PENALTY = 0.2
REPEATED_WORDS = 4
THRESHOLD = 0.5


def reward(outputs: Sequence[str], references: Sequence[str]) -> list[float | None]:
    """Cosine of the sentence embeddings, adjusted and clipped to [0, 1]. The adjustments are choices:

    +0.05 for an answer that is not blank and in which no run of four words occurs twice;
    -0.001 per character beyond twice the reference's length, and never less than -0.2.
    A blank answer has cosine 0, no bonus, and so reward 0.
    """
    rewards: list[float | None] = []
    for output, reference, cosine in zip(outputs, references, cosines(outputs, references), strict=True):
        bonus = BONUS if output.strip() and not repeats(output) else 0.0
        beyond = max(0, len(output) - 2 * len(reference))
        penalty = min(LARGEST_PENALTY, PENALTY_PER_CHARACTER * beyond)
        rewards.append(min(1.0, max(0.0, cosine + bonus - penalty)))
    return rewards


def repeats(text: str) -> bool:
    """Whether some run of four words occurs twice (case ignored), or one word four times in a row."""
    words = re.findall(r"\w+", text.lower())
    runs = list(zip(*(words[start:] for start in range(REPEATED_WORDS)), strict=False))
    return len(set(runs)) < len(runs) or any(len(set(run)) == 1 for run in runs)


def judge(outputs: Sequence[str], references: Sequence[str]) -> list[Verdict]:
    """Right when the raw cosine is .5 or more (a choice: the report shows other thresholds beside it).

    scores: `similarity`, the raw cosine without bonus or penalty.
    """
    return [
        Verdict(output.strip() or None, similarity >= THRESHOLD, {"similarity": similarity})
        for output, similarity in zip(outputs, cosines(outputs, references), strict=True)
    ]


TASK = Task(
    "plp",
    "PLP questions",
    max_new_tokens=256,
    reward=reward,
    judge=judge,
    measures=(Measure("plp_similarity", "PLP similarity", "similarity", decimals=4),),
    threshold_sweep=("similarity", (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
)
