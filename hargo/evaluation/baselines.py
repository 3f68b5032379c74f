"""Answers without a language model. A report that leaves these out misleads: on a random split of the HPC-GPT data
TF-IDF and logistic regression are level with fine-tuned models.

majority    the most frequent answer of the task in training
1-NN        the answer of the training row of the task whose prompt is nearest (cosine of TF-IDF)
TF-IDF + LR logistic regression over all yes/no tasks together; None (does not apply) for other tasks

The last two see character n-grams of 3 to 5 inside word boundaries; scikit-learn's defaults but for C = 2.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hargo import tasks
from hargo.config import Study
from hargo.data.records import Row, load_rows
from hargo.errors import UserError
from hargo.io import write_json, write_jsonl

Answers = dict[str, list[str | None]]


def baselines(train: list[Row], eval: list[Row], seed: int) -> Answers:
    """Name -> answers aligned with `eval`; None where a baseline does not apply or its task has no training rows.

    seed: for the solver of the logistic regression; the default solver draws nothing, so the answers do not change.
    """
    return {
        "majority": _per_task(train, eval, _majority),
        "all yes": [tasks.load(row.task).positive for row in eval],
        "1-NN": _per_task(train, eval, _nearest),
        "TF-IDF + LR": _regression(train, eval, seed),
    }


def run(study: Study, data: Path, out: Path) -> None:
    """Write `predictions-<name>.jsonl` per baseline and `metrics.json` (name -> figures of its rows) into `out`."""
    from hargo.evaluation.metrics import summarise

    train, evaluation = load_rows(data / "train.jsonl"), load_rows(data / "eval.jsonl")
    train = [row for row in train if row.task in study.tasks]
    evaluation = [row for row in evaluation if row.task in study.tasks]
    if not train or not evaluation:
        raise UserError(f"{data}: no training or no evaluation rows for the tasks {', '.join(study.tasks)}")
    figures: dict[str, Any] = {}
    for name, answers in baselines(train, evaluation, study.data.split_seed).items():
        predictions = _predictions(evaluation, answers)
        write_jsonl(out / f"predictions-{name.replace(' ', '')}.jsonl", predictions)
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
    vectors = _vectorizer()
    try:
        known = vectors.fit_transform(row.prompt for row in train)
    except ValueError:  # only blank prompts: nothing to compare
        return _majority(train, evaluation)
    cosines = vectors.transform(row.prompt for row in evaluation) @ known.T
    # ties, and rows that share nothing with training, go to the first training row
    return [train[int(i)].answer for i in cosines.toarray().argmax(axis=1)]


def _regression(train: list[Row], evaluation: list[Row], seed: int) -> list[str | None]:
    from sklearn.linear_model import LogisticRegression

    from hargo.tasks.race import label

    def applies(row: Row) -> bool:
        return tasks.load(row.task).positive is not None

    result: list[str | None] = [None] * len(evaluation)
    known = [(row.prompt, said) for row in train if applies(row) and (said := label(row.answer))]
    places = [i for i, row in enumerate(evaluation) if applies(row)]
    answers = [said for _, said in known]
    if not known or not places:
        return result
    texts = [evaluation[i].prompt for i in places]
    try:
        vectors = _vectorizer()
        table = vectors.fit_transform(prompt for prompt, _ in known)
        if len(set(answers)) < 2:
            raise ValueError("one class only")
        predicted = (
            LogisticRegression(C=2.0, max_iter=1000, random_state=seed)
            .fit(table, answers)
            .predict(vectors.transform(texts))
        )
    except ValueError:  # one class, or only blank prompts: the constant answer is all there is to learn
        predicted = [max(sorted(set(answers)), key=answers.count)] * len(texts)
    for place, text in zip(places, predicted, strict=True):
        result[place] = str(text)
    return result


def _vectorizer() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5))


def _predictions(rows: list[Row], answers: list[str | None]) -> list[dict[str, Any]]:
    """Predictions for the rows that the baseline answers, judged and rewarded as a model's are."""
    from hargo.evaluation.run import judge

    answered = [(row, text) for row, text in zip(rows, answers, strict=True) if text is not None]
    extra: list[dict[str, Any]] = [{} for _ in answered]
    return judge([row for row, _ in answered], [text for _, text in answered], extra)
