"""Questions on data sets and models for programming-language processing.

Two catalogues of widely published facts; an aspect that is not stated for an entry is not asked for.
Answers are sentences of one form per aspect, or lists.
"""

from __future__ import annotations

from hargo.config.options import EmbeddedOptions
from hargo.data.embedded.questions import Fact, question_rows
from hargo.data.records import Row

SIX = "Go, Java, JavaScript, PHP, Python and Ruby"

#: task -> what a model has to do
TASKS = {
    "code search": "finding the code that matches a query in natural language",
    "clone detection": "deciding whether two pieces of code do the same",
    "defect detection": "deciding whether a function contains a vulnerability",
    "text-to-code generation": "writing code from a description in natural language",
    "code translation": "rewriting code in another programming language",
    "code repair": "turning faulty code into correct code",
    "code completion": "predicting the next tokens of unfinished code",
    "documentation translation": "translating documentation between human languages",
    "code pre-training": "learning a language model from a large body of source code",
    "data race detection": "deciding whether a parallel program has a data race",
}

#: name -> task, language, size, metric, origin
DATA_SETS: dict[str, dict[str, str]] = {
    "CodeSearchNet": {
        "task": "code search",
        "language": SIX,
        "size": "about two million pairs of a function and its documentation",
        "metric": "mean reciprocal rank",
        "origin": "GitHub and Microsoft Research",
    },
    "BigCloneBench": {"task": "clone detection", "language": "Java", "metric": "F1 score"},
    "POJ-104": {
        "task": "clone detection",
        "language": "C and C++",
        "size": "solutions to 104 programming problems, 500 for each problem",
        "metric": "mean average precision",
        "origin": "Peking University",
    },
    "Devign": {
        "task": "defect detection",
        "language": "C",
        "size": "about 27 thousand functions from FFmpeg and QEMU",
        "metric": "accuracy",
    },
    "CONCODE": {
        "task": "text-to-code generation",
        "language": "Java",
        "size": "more than 100 thousand examples of class environments and methods",
        "metric": "exact match, BLEU and CodeBLEU",
        "origin": "the University of Washington",
    },
    "CodeTrans": {"task": "code translation", "language": "Java and C#", "metric": "BLEU, exact match and CodeBLEU"},
    "Bugs2Fix": {"task": "code repair", "language": "Java", "metric": "BLEU, exact match and CodeBLEU"},
    "PY150": {
        "task": "code completion",
        "language": "Python",
        "size": "150 thousand source files collected from GitHub",
        "metric": "token accuracy",
        "origin": "ETH Zurich",
    },
    "GitHub Java Corpus": {
        "task": "code completion",
        "language": "Java",
        "metric": "token accuracy",
        "origin": "the University of Edinburgh",
    },
    "AdvTest": {"task": "code search", "language": "Python", "metric": "mean reciprocal rank"},
    "CoSQA": {
        "task": "code search",
        "language": "Python",
        "size": "about 20 thousand pairs of a web query and a function",
    },
    "HumanEval": {
        "task": "text-to-code generation",
        "language": "Python",
        "size": "164 programming problems with unit tests, written by hand",
        "metric": "pass@k",
        "origin": "OpenAI",
    },
    "MBPP": {
        "task": "text-to-code generation",
        "language": "Python",
        "size": "974 short programming problems with three test cases each",
        "metric": "pass@k",
        "origin": "Google Research",
    },
    "APPS": {
        "task": "text-to-code generation",
        "language": "Python",
        "size": "10 thousand problems from coding websites, with test cases",
        "metric": "the share of test cases passed",
        "origin": "the University of California, Berkeley",
    },
    "CodeContests": {"task": "text-to-code generation", "language": "C++, Python and Java", "origin": "DeepMind"},
    "DS-1000": {
        "task": "text-to-code generation",
        "language": "Python",
        "size": "one thousand data science problems on seven libraries",
        "origin": "the University of Hong Kong",
    },
    "Defects4J": {"task": "code repair", "language": "Java", "size": "real bugs of open-source projects, with tests"},
    "CodeNet": {
        "task": "code pre-training",
        "language": "more than fifty programming languages",
        "size": "about 14 million submissions to online judges",
        "origin": "IBM",
    },
    "The Stack": {
        "task": "code pre-training",
        "language": "several hundred programming languages",
        "size": "several terabytes of permissively licensed source code",
        "origin": "the BigCode project",
    },
    "Microsoft Docs": {
        "task": "documentation translation",
        "metric": "BLEU",
        "origin": "Microsoft",
    },
    "DataRaceBench": {
        "task": "data race detection",
        "language": "C, C++ and Fortran",
        "size": "some two hundred small OpenMP kernels with known labels",
        "origin": "Lawrence Livermore National Laboratory",
    },
}

ENCODER = "an encoder-only Transformer"
DECODER = "a decoder-only Transformer"
BOTH = "an encoder-decoder Transformer"

#: name -> origin, architecture, objective, language, base
MODELS: dict[str, dict[str, str]] = {
    "CodeBERT": {
        "origin": "Microsoft",
        "architecture": ENCODER,
        "objective": "masked language modelling and replaced token detection",
        "language": SIX,
        "base": "RoBERTa",
    },
    "GraphCodeBERT": {
        "origin": "Microsoft",
        "architecture": ENCODER,
        "objective": "masked language modelling, data flow edge prediction and node alignment",
        "language": SIX,
        "base": "CodeBERT",
    },
    "UniXcoder": {
        "origin": "Microsoft",
        "objective": "language modelling in three modes, with syntax trees and comments as extra input",
        "language": SIX,
    },
    "CodeGPT": {
        "origin": "Microsoft",
        "architecture": DECODER,
        "objective": "next token prediction",
        "language": "Java and Python",
        "base": "GPT-2",
    },
    "CodeT5": {
        "origin": "Salesforce",
        "architecture": BOTH,
        "objective": "span denoising and identifier tagging and prediction",
        "base": "T5",
    },
    "CodeGen": {
        "origin": "Salesforce",
        "architecture": DECODER,
        "objective": "next token prediction on text and code",
    },
    "PLBART": {
        "origin": "the University of California, Los Angeles",
        "architecture": BOTH,
        "objective": "denoising by token masking, deletion and infilling",
        "language": "Java and Python",
        "base": "BART",
    },
    "CuBERT": {
        "origin": "Google",
        "architecture": ENCODER,
        "objective": "masked language modelling and next sentence prediction",
        "language": "Python",
        "base": "BERT",
    },
    "Codex": {"origin": "OpenAI", "architecture": DECODER, "objective": "next token prediction", "base": "GPT-3"},
    "AlphaCode": {"origin": "DeepMind", "architecture": BOTH},
    "StarCoder": {
        "origin": "the BigCode project",
        "architecture": DECODER,
        "objective": "next token prediction with fill-in-the-middle",
    },
    "SantaCoder": {
        "origin": "the BigCode project",
        "architecture": DECODER,
        "objective": "next token prediction with fill-in-the-middle",
        "language": "Java, JavaScript and Python",
    },
    "InCoder": {"origin": "Meta", "architecture": DECODER, "objective": "causal masking, which allows infilling"},
    "Code Llama": {
        "origin": "Meta",
        "architecture": DECODER,
        "objective": "next token prediction and infilling",
        "base": "Llama 2",
    },
    "TransCoder": {
        "origin": "Meta",
        "architecture": BOTH,
        "objective": "masked language modelling, denoising and back-translation",
        "language": "C++, Java and Python",
    },
    "DeepSeek-Coder": {
        "origin": "DeepSeek",
        "architecture": DECODER,
        "objective": "next token prediction with fill-in-the-middle",
    },
    "ContraCode": {
        "origin": "the University of California, Berkeley",
        "objective": "contrastive learning on program variants of equal function",
        "language": "JavaScript",
    },
    "code2vec": {"origin": "the Technion and Facebook", "architecture": "attention over paths in the syntax tree"},
}

#: aspect -> (phrasings for training, for evaluation, answer); {n} the name, {v} the value
_SET_FORMS = {
    "task": (
        [
            "What is the {n} data set used for?",
            "What is the purpose of the {n} data set?",
            "Which task does the {n} data set serve?",
            "What is the task of the {n} data set?",
        ],
        ["For which task is the {n} data set used?", "What does the {n} data set serve for?"],
        "The {n} data set is used for {v}: {more}.",
    ),
    "language": (
        [
            "Which programming languages does the {n} data set contain?",
            "In which programming languages is the code of the {n} data set?",
            "What programming languages are covered by {n}?",
            "Which programming language is supported by the {n} data set?",
        ],
        ["Which languages are in the {n} data set?", "What is the programming language of the {n} data set?"],
        "The {n} data set contains code written in the following: {v}.",
    ),
    "size": (
        [
            "How large is the {n} data set?",
            "What is the size of the {n} data set?",
            "What does the {n} data set consist of?",
            "How many examples are in the {n} data set?",
        ],
        ["What size does the {n} data set have?", "How big is the {n} data set?"],
        "The {n} data set consists of {v}.",
    ),
    "metric": (
        [
            "Which metric is used on the {n} data set?",
            "How are models evaluated on the {n} data set?",
            "What is the metric of the {n} data set?",
            "What are models on {n} measured by?",
        ],
        ["By which metric are models compared on {n}?", "What metric does the {n} data set use?"],
        "Models on the {n} data set are compared by {v}.",
    ),
    "origin": (
        [
            "Who published the {n} data set?",
            "Where does the {n} data set come from?",
            "Which organisation released the {n} data set?",
            "By whom was the {n} data set created?",
        ],
        ["Who released the {n} data set?", "What is the origin of the {n} data set?"],
        "The {n} data set was published by researchers at {v}.",
    ),
}
_MODEL_FORMS = {
    "origin": (
        [
            "Who developed the {n} model?",
            "Which organisation published {n}?",
            "Where does the {n} model come from?",
            "By whom was {n} developed?",
        ],
        ["Who published the {n} model?", "What is the origin of {n}?"],
        "The {n} model was developed by researchers at {v}.",
    ),
    "architecture": (
        [
            "What is the architecture of {n}?",
            "Which architecture does the {n} model use?",
            "What kind of network is {n}?",
            "How is the {n} model built?",
        ],
        ["What architecture does {n} have?", "What type of network does the {n} model use?"],
        "The architecture of the {n} model is {v}.",
    ),
    "objective": (
        [
            "What is the pre-training objective of {n}?",
            "How is {n} pre-trained?",
            "Which pre-training tasks does the {n} model use?",
            "What are the training objectives of the {n} model?",
        ],
        ["With which objective is {n} pre-trained?", "What tasks are used to pre-train {n}?"],
        "The {n} model is pre-trained with {v}.",
    ),
    "language": (
        [
            "Which programming languages was {n} pre-trained on?",
            "On code in which languages was the {n} model trained?",
            "What programming languages does {n} know from pre-training?",
        ],
        ["Which languages are in the training data of {n}?"],
        "The {n} model was pre-trained on code in {v}.",
    ),
    "base": (
        [
            "Which model is {n} based on?",
            "What does the {n} model build on?",
            "What is the base of the {n} model?",
        ],
        ["On which earlier model does {n} build?"],
        "The {n} model builds on {v} and adapts it to source code.",
    ),
}


def _about(kind: str, catalogue: dict[str, dict[str, str]], forms: dict) -> list[Fact]:
    found = []
    for name, entry in catalogue.items():
        for aspect, value in entry.items():
            known, unseen, form = forms[aspect]
            answer = _fill(form, n=name, v=value, more=TASKS.get(value, ""))
            asked, kept = ([(_fill(q, n=name), answer) for q in part] for part in (known, unseen))
            found.append(Fact(f"{kind} {aspect}", asked, kept))
    return found


def _fill(form: str, **values: str) -> str:
    """The form with its values; a name that begins with an article keeps only its own."""
    text = form.format(**values)
    return text.replace("the The ", "The ").replace("The The ", "The ")


def _lists() -> list[Fact]:
    """Which entries share a value, for groups of two to six."""
    found = []
    for kind, catalogue, aspect, words in (
        ("data sets", DATA_SETS, "task", "are used for {v}"),
        ("models", MODELS, "origin", "come from {v}"),
        ("models", MODELS, "base", "build on {v}"),
        ("models", MODELS, "architecture", "have the architecture of {v}"),
    ):
        groups: dict[str, list[str]] = {}
        for name, entry in catalogue.items():
            if aspect in entry:
                groups.setdefault(entry[aspect], []).append(name)
        for value, names in groups.items():
            if 2 <= len(names) <= 6:
                rest, answer = words.format(v=value), ", ".join(names)
                known = [f"Which {kind} {rest}?", f"What {kind} {rest}?", f"List the {kind} that {rest}."]
                found.append(
                    Fact(f"list of {kind}", [(q, answer) for q in known], [(f"Name the {kind} that {rest}.", answer)])
                )
    return found


def facts() -> list[Fact]:
    """One aspect of one entry, and the entries that share one."""
    return [
        *_about("data set", DATA_SETS, _SET_FORMS),
        *_about("model", MODELS, _MODEL_FORMS),
        *_lists(),
    ]


def plp_rows(options: EmbeddedOptions) -> list[Row]:
    return question_rows("plp", facts(), options.seed, options.plp, options.eval_plp)
