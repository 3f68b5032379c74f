"""Model folders from elsewhere: tensors, sizes, padding, settings of sampling, permissions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch
from places import ROOT
from safetensors.torch import load_file, save_file

from hargo.errors import UserError
from hargo.models.load import check_tokenizer, load_model, load_tokenizer, save_model
from hargo.models.prepare import prepare
from hargo.models.scratch import train_tokenizer

CPU = torch.device("cpu")
Tensors = dict[str, torch.Tensor]


def saved(folder: Path, family: str = "llama") -> Path:
    model = tiny.model(family)
    model.save_pretrained(folder)
    return folder


def edit(folder: Path, change: Callable[[Tensors], object]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, path, metadata={"format": "pt"})


def configure(folder: Path, name: str = "config.json", **values: object) -> None:
    path = folder / name
    known = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**known, **values}))


@pytest.mark.parametrize(
    ("family", "change", "told"),
    [
        ("llama", lambda t: t.pop("model.layers.0.mlp.up_proj.weight"), "layers.0.mlp.up_proj.weight is missing"),
        ("llama", lambda t: t.pop("lm_head.weight"), "lm_head.weight is missing"),
        ("qwen2", lambda t: t.pop("model.embed_tokens.weight"), "model.embed_tokens.weight is missing"),
        ("gpt2", lambda t: t.pop("transformer.h.1.mlp.c_fc.bias"), "c_fc.bias is missing"),
        ("llama", lambda t: [t.pop(name) for name in list(t)[:9]], "and 6 more tensors is missing"),
        ("llama", lambda t: t.update({"model.norm.weight": torch.ones(5)}), "model.norm.weight is 5, should be 32"),
        (
            "llama",
            lambda t: t.update({"model.layers.2.mlp.up_proj.weight": torch.ones(64, 32)}),
            "layers.2.mlp.up_proj.weight has no place",
        ),
        (
            "llama",
            lambda t: t.update({"model.layers.0.self_attn.q_proj.bias": torch.ones(32)}),
            "q_proj.bias has no place",
        ),
        (
            "llama",
            lambda t: t.update({"model.layers.0.self_attn.q_proj.lora_A.weight": torch.ones(8, 32)}),
            "lora_A.weight has no place",
        ),
    ],
)
def test_tensors_that_are_not_the_models_are_named(
    tmp_path: Path, family: str, change: Callable[[Tensors], object], told: str
) -> None:
    edit(saved(tmp_path / "model", family), change)
    with pytest.raises(UserError, match=told) as error:
        load_model(tmp_path / "model", CPU)
    assert "\n" not in str(error.value)
    shutil.copytree(start_of(tmp_path), tmp_path / "model", dirs_exist_ok=True)
    study = tiny.study(model={"source": "folder", "path": str(tmp_path / "model")}, pretrain=None)
    with pytest.raises(UserError, match=told):
        prepare(study, tmp_path, tmp_path / "base")


def start_of(folder: Path) -> Path:
    """A tokenizer alone."""
    train_tokenizer(["for (int i = 0; i < 9; i++)"], 300).save_pretrained(folder / "tokenizer")
    return folder / "tokenizer"


@pytest.mark.parametrize("layers", [1, 3])
def test_another_number_of_layers_than_the_files_have_is_an_error(tmp_path: Path, layers: int) -> None:
    configure(saved(tmp_path), num_hidden_layers=layers)
    with pytest.raises(UserError, match=r"model\.layers\.[12]\."):
        load_model(tmp_path, CPU)


@pytest.mark.parametrize("family", [*tiny.FAMILIES, "lfm2"])
def test_whole_models_load_whatever_else_lies_with_them(tmp_path: Path, family: str) -> None:
    """A tied output layer is absent; a value head, an image encoder and old buffers change no answer."""
    extra = {
        "v_head.summary.weight": torch.ones(1, 32),
        "model.vision_tower.patch.weight": torch.ones(4, 4),
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4),
    }
    edit(saved(tmp_path, family), lambda t: t.update(extra if family in ("llama", "qwen2") else {}))
    again, made = load_model(tmp_path, CPU), tiny.model(family)
    for (name, a), (_, b) in zip(made.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(a, b), name


def model_folder(folder: Path) -> Path:
    """A model with its tokenizer, ready to be spoilt."""
    prepare(tiny.study(), tiny.write_data(folder / "data"), folder / "base")
    return folder / "base"


@pytest.mark.parametrize(
    "leftover",
    [
        {"min_p": 0.1, "do_sample": False},
        {"temperature": 0.7, "top_p": 0.9, "top_k": 3, "typical_p": 0.5, "do_sample": False},
        {"num_beams": 1, "length_penalty": 2.0, "early_stopping": True},
        {"repetition_penalty": 1.1, "max_length": 20, "epsilon_cutoff": 0.1},
    ],
)
def test_settings_of_sampling_that_a_model_brings_are_dropped(tmp_path: Path, leftover: dict[str, object]) -> None:
    folder = model_folder(tmp_path)
    configure(folder, "generation_config.json", **leftover, eos_token_id=[4, 3])
    study = tiny.study(model={"source": "folder", "path": str(folder)}, pretrain=None)
    prepare(study, tmp_path / "data", tmp_path / "again")
    kept = json.loads((tmp_path / "again" / "generation_config.json").read_text())
    assert not leftover.keys() & kept.keys() and kept["eos_token_id"] == [4, 3]
    model = load_model(folder, CPU)
    save_model(tmp_path / "trained", model, load_tokenizer(folder))


@pytest.mark.parametrize("pad", ["[PAD]", None])
def test_padding_outside_the_embedding_becomes_the_end_token(tmp_path: Path, pad: str | None) -> None:
    folder = model_folder(tmp_path)
    tokenizer = load_tokenizer(folder)
    if pad is None:
        tokenizer.pad_token = None
    else:
        tokenizer.add_special_tokens({"pad_token": pad})
        assert tokenizer.pad_token_id >= load_model(folder, CPU).get_input_embeddings().weight.shape[0]
    tokenizer.save_pretrained(folder)
    again = load_tokenizer(folder)
    assert again.pad_token_id == again.eos_token_id == tokenizer.eos_token_id
    study = tiny.study(model={"source": "folder", "path": str(folder)}, pretrain=None)
    prepare(study, tmp_path / "data", tmp_path / "again")
    assert load_tokenizer(tmp_path / "again").pad_token_id == tokenizer.eos_token_id


def test_a_padding_id_of_the_configuration_outside_the_embedding_does_no_harm(tmp_path: Path) -> None:
    configure(saved(tmp_path), pad_token_id=97)
    load_model(tmp_path, CPU)


def test_a_tokenizer_larger_than_the_embedding_is_an_error_with_the_numbers(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    tokenizer = load_tokenizer(folder)
    rows = len(tokenizer)
    tokenizer.add_tokens(["reduction", "collapse"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(UserError, match=f"ids up to {rows + 1}.*{rows} rows"):
        load_tokenizer(folder)
    study = tiny.study(model={"source": "folder", "path": str(folder)}, pretrain=None)
    with pytest.raises(UserError, match=f"ids up to {rows + 1}.*{rows} rows"):
        prepare(study, tmp_path / "data", tmp_path / "again")


def test_special_tokens_outside_the_embedding_matter_where_the_template_has_them(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["for (int i = 0; i < 9; i++)"], 300)
    rows = len(tokenizer)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    check_tokenizer(tokenizer, rows, "here")  # no text gives it
    tokenizer.chat_template += "{{ '<image>' }}"
    with pytest.raises(UserError, match="embedding"):
        check_tokenizer(tokenizer, rows, "here")


def test_a_model_of_somebody_else_is_permission_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model_folder(tmp_path)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).suffix != ".safetensors" and allowed(path, mode))
    with pytest.raises(UserError, match=r"model.safetensors: permission denied"):
        load_model(folder, CPU)


@pytest.mark.parametrize("umask", [0o027])
def test_files_have_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    code = (
        "import os, sys; sys.path.insert(0, 'tests/support'); import tiny; from pathlib import Path\n"
        f"os.umask({umask}); from hargo.models.prepare import prepare; from hargo.training.job import Places, train\n"
        f"out = Path({str(tmp_path)!r}); study = tiny.study(sft={{'max_steps': 2, 'checkpoint_every': 1}})\n"
        "data = tiny.write_data(out / 'data'); prepare(study, data, out / 'base')\n"
        "train(study, 'sft', 0, Places(out / 'base', data, out / 'sft', out / 'checkpoints'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for path in tmp_path.rglob("*"):
        wanted = (0o777 if path.is_dir() else 0o666) & ~umask
        assert path.stat().st_mode & 0o777 == wanted, (path, oct(path.stat().st_mode))


def gguf(path: Path, without: str = "") -> Path:
    """A llama of two layers as a GGUF file, its output layer tied."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    for add, value in (
        (writer.add_block_count, 2),
        (writer.add_context_length, 64),
        (writer.add_embedding_length, 32),
        (writer.add_feed_forward_length, 64),
        (writer.add_head_count, 4),
        (writer.add_head_count_kv, 4),
        (writer.add_layer_norm_rms_eps, 1e-5),
        (writer.add_rope_freq_base, 1e4),
        (writer.add_rope_dimension_count, 8),
        (writer.add_vocab_size, 260),
    ):
        add(value)
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters, "re"])
    writer.add_token_types([3] * 3 + [1] * (len(letters) + 1))
    writer.add_token_merges(["r e"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    sizes = {"token_embd": (260, 32), "output_norm": (32,)}
    for block in (0, 1):
        sizes |= {f"blk.{block}.{name}": (32, 32) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        sizes |= {f"blk.{block}.{name}": (64, 32) for name in ("ffn_gate", "ffn_up")}
        sizes |= {f"blk.{block}.ffn_down": (32, 64), f"blk.{block}.attn_norm": (32,), f"blk.{block}.ffn_norm": (32,)}
    for name, size in sizes.items():
        if name != without:
            writer.add_tensor(f"{name}.weight", torch.rand(size).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file_is_held_to_the_same(tmp_path: Path) -> None:
    def base(path: Path) -> None:
        study = tiny.study(model={"source": "gguf", "path": str(path)}, pretrain=None)
        prepare(study, tmp_path, tmp_path / "base")

    base(gguf(tmp_path / "whole.gguf"))
    assert load_model(tmp_path / "base", CPU).config.num_hidden_layers == 2
    with pytest.raises(UserError, match=r"part\.gguf: model\.layers\.1\.mlp\.up_proj\.weight is missing"):
        base(gguf(tmp_path / "part.gguf", without="blk.1.ffn_up"))
