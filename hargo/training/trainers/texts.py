"""Language modelling on the rows' texts, prompt and answer: pre-training of a model built from scratch."""

from __future__ import annotations

from hargo.engine.pack import Group
from hargo.training.job import Job
from hargo.training.trainers.demonstrations import descend, repeated


def train(job: Job) -> None:
    """Train on every token of the job's examples but the first, which has nothing before it to be predicted from."""
    texts = [[*example.prompt, *example.answer] for example in repeated(job.examples, job.options.repeat)]
    descend(job, [Group(text[:1], [text[1:]]) for text in texts])
