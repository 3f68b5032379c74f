"""Text never becomes a control token; prompts depend on study and text alone; templates that refuse are one line."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import subprocess
import sys

import pytest
import tiny
from places import ROOT
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from hargo.config.options import ModelOptions
from hargo.errors import UserError
from hargo.models.control import Reader
from hargo.models.encode import encode, prompt_text

TEXTS = [
    "#pragma omp parallel for",
    "for (int i = 0; i < n; i++) a[i] = b[i];",
    "Is there a data race? Answer yes or no.",
    "hello   world\n\n  x",
]
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<|user|>", "<|end|>", "[INST]"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|user|>\n{{ m['content'] | trim }}<|end|>\n{% endfor %}[INST]<tool_call>\n"
)
LITERAL = 'printf("<|end|><|user|>");'
SPELLINGS = [
    "<|end|><|user|>",
    LITERAL,
    "a <s> b",
    "x</s>",
    "<unk>",
    "<tool_call>hi",  # added, not declared special, written by the template
    "<|fim|>",
    "[INST]",
    "user|>",
    "\U000f0000<s>\U000f0003",  # characters that stand for control tokens within
]
KINDS = ["bpe", "unigram-always", "unigram-first", "unigram-never", "sentencepiece-bpe", "wordpiece", "wordlevel"]


def bare(kind: str) -> tuple[Tokenizer, trainers.Trainer]:
    same = {"special_tokens": SPECIAL, "show_progress": False}
    if kind == "bpe":
        made = Tokenizer(models.BPE())
        made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        return made, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, **same)
    if kind.startswith("unigram"):
        made = Tokenizer(models.Unigram())
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=kind.split("-")[1])
        return made, trainers.UnigramTrainer(vocab_size=200, unk_token="<unk>", **same)
    if kind == "sentencepiece-bpe":
        made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        return made, trainers.BpeTrainer(vocab_size=300, **same)
    if kind == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="<unk>"))
        made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.Whitespace()
        return made, trainers.WordPieceTrainer(vocab_size=200, **same)
    made = Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()  # whole words, so that its vocabulary has <s> as one
    return made, trainers.WordLevelTrainer(vocab_size=200, **same)


def tokenizer(kind: str = "bpe", template: str = TEMPLATE) -> PreTrainedTokenizerFast:
    made, trainer = bare(kind)
    made.train_from_iterator(TEXTS * 20, trainer)
    made.add_tokens(
        [AddedToken(name, special=False, normalized=name == "<|fim|>") for name in ("<tool_call>", "<|fim|>", "  ")]
    )
    made.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    fast.add_special_tokens({"additional_special_tokens": ["<|user|>", "<|end|>", "[INST]"]})
    fast.chat_template = template
    return fast


@pytest.fixture(scope="module", params=KINDS)
def known(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    return tokenizer(request.param)


FRAMES = {
    "template": (lambda known: lambda text: prompt_text(known, text), False),
    "answer": (lambda known: str, False),
    "plain line": (lambda known: lambda text: text + "\n", True),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_a_spelling_in_a_text_is_text(known: PreTrainedTokenizerFast, frame: str) -> None:
    make, add = FRAMES[frame]
    reader = Reader(known)
    (alone,) = reader.read([("x",)], make(known), add)
    found = reader.read([(text,) for text in SPELLINGS], make(known), add)
    for text, ids in zip(SPELLINGS, found, strict=True):
        assert reader._controls_in(ids) == reader._controls_in(alone), text


@pytest.mark.parametrize("frame", FRAMES)
def test_other_texts_have_the_ids_that_the_tokenizer_gives_them(known: PreTrainedTokenizerFast, frame: str) -> None:
    make, add = FRAMES[frame]
    reader, framed = Reader(known), make(known)
    texts = [text[:end] for text in TEXTS for end in (1, 3, 8, 20, 99)]
    wanted = known([framed(text) for text in texts], add_special_tokens=add)["input_ids"]
    assert reader.read([(text,) for text in texts], framed, add) == wanted
    # the way that spellings are read by changes nothing else
    assert [reader._apart((text,), framed, add) for text in texts] == wanted


def test_a_spelling_decodes_to_what_it_was() -> None:
    known = tokenizer()
    for text in SPELLINGS:
        (ids,) = Reader(known).read([(text,)], str)
        assert known.decode(ids) == text


def test_frame_and_text_together_spell_no_control_token() -> None:
    known = tokenizer(template="{% for m in messages %}<|{{ m['content'] }}|>{% endfor %}[INST]")
    controls = {known.convert_tokens_to_ids(name) for name in ("<|user|>", "<|end|>")}
    for text in ("user", "end"):
        (ids,) = Reader(known).read([(text,)], lambda text: prompt_text(known, text))
        assert not controls & set(ids)


def test_rows_and_their_answers() -> None:
    known = tokenizer(template=TEMPLATE)
    plain = tiny.row(1)
    row = dataclasses.replace(plain, prompt=plain.prompt + LITERAL, answer='"<|user|>" </s> <s></s>')
    system = ModelOptions(system="be <|end|> brief")
    (example,) = encode(known, [row], system)
    (usual,) = encode(known, [plain], ModelOptions(system="be brief"))
    specials = set(known.all_special_ids)
    assert [i for i in example.prompt if i in specials] == [i for i in usual.prompt if i in specials]
    assert [i for i in example.answer if i in specials] == [known.eos_token_id]
    assert LITERAL in known.decode(example.prompt) and "be <|end|> brief" in known.decode(example.prompt)
    assert known.decode(example.answer) == '"<|user|>" </s> <s></s>'


DATED = "{{ strftime_now('%d %B %Y') }}: {% for m in messages %}{{ m['content'] }}{% endfor %}"


def test_a_date_in_the_template_is_the_studys() -> None:
    known = tokenizer(template=DATED)
    assert prompt_text(known, "why?") == "26 July 2024: why?"
    assert prompt_text(known, "why?", ModelOptions(date=dt.date(2031, 1, 2))) == "02 January 2031: why?"


def test_prompts_do_not_depend_on_the_process() -> None:
    code = (
        "import sys; sys.path[:0] = ['tests/models', 'tests/support']; from test_control import *\n"
        "known = tokenizer(template=\"{{ strftime_now('%c %A %Z %%') }} {{ range(10**5) | random }} \" + TEMPLATE)\n"
        "print(repr(prompt_text(known, 'why?')), encode(known, [tiny.row(1)])[0].prompt)"
    )
    found = set()
    for zone, language, seed in (("Pacific/Auckland", "de_DE.UTF-8", "1"), ("America/Lima", "C", "2")):
        environment = {**os.environ, "TZ": zone, "LC_ALL": language, "LANG": language, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1 and "2024" in found.pop()


@pytest.mark.parametrize(
    ("template", "options", "told"),
    [
        ("{{ raise_exception('System role not supported') }}", {"system": "be brief"}, "System role.*model.system"),
        ("{{ raise_exception('roles must alternate') }}", {}, "roles must alternate"),
        ("{{ 'x' + nothing.at_all }}", {}, "chat template"),
        ("{% for m in messages %}{{ m['content'] }}", {}, "chat template"),
        ("{% for m in messages %}{{ m['content'] + 1 }}{% endfor %}", {}, "chat template"),
        ("{{ messages[-1]['content'] }}", {"system": "be brief"}, "leaves out the system prompt.*model.system"),
        ("Say something.", {}, "leaves out the user's message"),
    ],
)
def test_a_template_that_cannot_be_applied_is_one_line(template: str, options: dict[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told) as error:
        encode(tokenizer(template=template), [tiny.row(1)], ModelOptions(**options))
    assert "\n" not in str(error.value)
