"""Answers without a language model. A report that leaves these out misleads: on a random split of the HPC-GPT data
TF-IDF with logistic regression is level with fine-tuned models.

majority    the most frequent answer of the task in training
1-NN        the answer of the training row of the task whose prompt is nearest (cosine of TF-IDF)
TF-IDF + LR logistic regression over the tasks of a pool together; None (does not apply) for tasks without classes
all yes     the positive class, where a task has one

The last two see character n-grams of 3 to 5 inside word boundaries; scikit-learn's defaults except for C = 2.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hargo import tasks
from hargo.config import Study
from hargo.data.records import Row, load_rows
from hargo.errors import UserError
from hargo.evaluation import predictions as files
from hargo.evaluation.confusion import truth_of
from hargo.evaluation.metrics import summarise
from hargo.evaluation.predictions import Prediction
from hargo.io import write_json

Answers = dict[str, list[str | None]]

#: baseline -> the file of its predictions
FILES = {
    "majority": "predictions-majority.jsonl",
    "all yes": "predictions-allyes.jsonl",
    "1-NN": "predictions-1-NN.jsonl",
    "TF-IDF + LR": "predictions-TF-IDF+LR.jsonl",
}


def baselines(train: list[Row], eval: list[Row], seed: int) -> Answers:
    """Name -> answers aligned with `eval`; None where a baseline does not apply or its task has no training rows.

    seed: for the solver of the logistic regression; the default solver is deterministic, so the answers do not change.
    """
    return {
        "majority": _per_task(train, eval, _majority),
        "all yes": [tasks.load(row.task).positive for row in eval],
        "1-NN": _per_task(train, eval, _nearest),
        "TF-IDF + LR": _regression(train, eval, seed),
    }


def run(study: Study, data: Path, out: Path) -> None:
    """Write the file of each baseline's predictions and `metrics.json` (name -> figures of its rows) into `out`."""
    train, evaluation = load_rows(data / "train.jsonl"), load_rows(data / "eval.jsonl")
    train = [row for row in train if row.task in study.tasks]
    evaluation = [row for row in evaluation if row.task in study.tasks]
    if not train or not evaluation:
        raise UserError(f"{data}: no training or no evaluation rows for the tasks {', '.join(study.tasks)}")
    figures: dict[str, Any] = {}
    for name, answers in baselines(train, evaluation, study.data.split_seed).items():
        predictions = _predictions(evaluation, answers)
        files.write(out / FILES[name], predictions)
        if predictions:
            figures[name] = summarise(predictions)
    write_json(out / "metrics.json", figures)


def _per_task(train: list[Row], evaluation: list[Row], answer: Any) -> list[str | None]:
    result: list[str | None] = [None] * len(evaluation)
    for task in dict.fromkeys(row.task for row in evaluation):
        known = [row for row in train if row.task == task]
        places = [i for i, row in enumerate(evaluation) if row.task == task]
        if known:
            for place, text in zip(places, answer(known, [evaluation[i] for i in places]), strict=True):
                result[place] = text
    return result


def _majority(train: list[Row], evaluation: list[Row]) -> list[str]:
    counts = Counter(row.answer for row in train)
    best = min(counts, key=lambda answer: (-counts[answer], answer))
    return [best] * len(evaluation)


def _nearest(train: list[Row], evaluation: list[Row]) -> list[str]:
    if _blank(train):  # nothing to compare
        return _majority(train, evaluation)
    vectors = _vectorizer()
    known = vectors.fit_transform(row.prompt for row in train)
    cosines = vectors.transform(row.prompt for row in evaluation) @ known.T
    # ties, and rows that share nothing with training, go to the first training row
    return [train[int(i)].answer for i in cosines.toarray().argmax(axis=1)]


def _regression(train: list[Row], evaluation: list[Row], seed: int) -> list[str | None]:
    result: list[str | None] = [None] * len(evaluation)
    pools = {row.task: tasks.load(row.task).counted_in for row in evaluation}
    for pool in dict.fromkeys(pool for pool in pools.values() if pool is not None):
        known = [row for row in train if tasks.load(row.task).counted_in == pool]
        classes = [truth_of(row.task, row.answer) for row in known]
        labelled = [(row, truth) for row, truth in zip(known, classes, strict=True) if truth is not None]
        places = [i for i, row in enumerate(evaluation) if pools[row.task] == pool]
        if labelled:
            truths = [truth for _, truth in labelled]
            for place, text in zip(
                places,
                _classes([row for row, _ in labelled], truths, [evaluation[i] for i in places], seed),
                strict=True,
            ):
                result[place] = text
    return result


def _classes(train: list[Row], classes: list[str], evaluation: list[Row], seed: int) -> list[str]:
    """The class of each evaluation row by logistic regression on the training rows and their classes."""
    if len(set(classes)) < 2 or _blank(train):  # the constant answer is all there is to learn
        return [max(sorted(set(classes)), key=classes.count)] * len(evaluation)
    from sklearn.linear_model import LogisticRegression

    vectors = _vectorizer()
    table = vectors.fit_transform(row.prompt for row in train)
    model = LogisticRegression(C=2.0, max_iter=1000, random_state=seed).fit(table, classes)
    return [str(answer) for answer in model.predict(vectors.transform(row.prompt for row in evaluation))]


def _blank(rows: list[Row]) -> bool:
    """Whether no prompt has a character to make an n-gram of, which the vectoriser refuses."""
    return not any(row.prompt.strip() for row in rows)


def _vectorizer() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5))


def _predictions(rows: list[Row], answers: list[str | None]) -> list[Prediction]:
    """Predictions for the rows that the baseline answers, judged and rewarded as a model's are."""
    from hargo.evaluation.run import judge

    answered = [(row, text) for row, text in zip(rows, answers, strict=True) if text is not None]
    extra: list[dict[str, Any]] = [{} for _ in answered]
    return judge([row for row, _ in answered], [text for _, text in answered], extra)
