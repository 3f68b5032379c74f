"""From facts to questions: the same facts in training and evaluation, asked in other words."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hargo.data.records import Row
from hargo.errors import UserError


@dataclass(frozen=True)
class Fact:
    """One fact and the ways to ask for it, each with the answer in the form that the question calls for.

    family: what kind of fact it is
    known: phrasings for training; one of them, another for each fact, is left to evaluation
    unseen: phrasings for evaluation only
    """

    family: str
    known: list[tuple[str, str]]
    unseen: list[tuple[str, str]]


def question_rows(task: str, facts: list[Fact], seed: int, train: int, evaluation: int) -> list[Row]:
    """`train` training rows, then `evaluation` rows whose facts, but not whose questions, are in training.

    Every fact is asked once before any is asked twice. A question whose words allow two answers is left out.
    """
    rng = random.Random(f"{seed}/{task}")
    answers: dict[str, set[str]] = {}
    for fact in facts:
        for question, answer in fact.known + fact.unseen:
            answers.setdefault(question, set()).add(answer)

    def clear(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(question, answer) for question, answer in pairs if len(answers[question]) == 1]

    order = list(facts)
    rng.shuffle(order)
    training: list[list[tuple[str, str]]] = []
    kept_back: list[list[tuple[str, str]]] = []
    for fact in order:
        known, unseen = clear(fact.known), clear(fact.unseen)
        rng.shuffle(known)
        rng.shuffle(unseen)
        rest = known[-1:] if len(known) > 2 else []
        training.append(known[: len(known) - len(rest)])
        both = rest + unseen[:1] if rng.random() < 0.4 else unseen[:1] + rest
        kept_back.append(both + unseen[1:])

    chosen = _take(order, training, train, set())
    if len(chosen) < train:
        raise UserError(f"data.embedded.{task}: only {len(chosen)} different questions, not {train}; ask for fewer")
    covered = {id(fact) for fact, _, _ in chosen}
    pairs = [(fact, kept) for fact, kept in zip(order, kept_back, strict=True) if id(fact) in covered]
    rng.shuffle(pairs)
    asked = {question for _, question, _ in chosen}
    tested = _take([fact for fact, _ in pairs], [kept for _, kept in pairs], evaluation, asked)
    if len(tested) < evaluation:
        raise UserError(
            f"data.embedded.eval_{task}: only {len(tested)} questions on facts of the training questions, "
            f"not {evaluation}; ask for fewer, or for more training questions"
        )
    rng.shuffle(chosen)
    rows: list[Row] = []
    for part, meta in ((chosen, {"split": "train"}), (tested, {"split": "eval", "held_out": "phrasing"})):
        for fact, question, answer in part:
            rows.append(Row(f"{task}/{len(rows):05d}", task, question, answer, {**meta, "family": fact.family}))
    return rows


def _take(
    facts: list[Fact], pairs: list[list[tuple[str, str]]], count: int, taken: set[str]
) -> list[tuple[Fact, str, str]]:
    """Up to `count` questions, a round of the facts at a time, none of them in `taken` or twice."""
    taken = set(taken)
    result: list[tuple[Fact, str, str]] = []
    for turn in range(max(map(len, pairs), default=0)):
        for fact, own in zip(facts, pairs, strict=True):
            if len(result) == count:
                return result
            if turn < len(own) and own[turn][0] not in taken:
                taken.add(own[turn][0])
                result.append((fact, *own[turn]))
    return result
