"""LoRA: the model that is saved is the one that was trained, for every choice of modules that is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny
import torch
from transformers import AutoModelForCausalLM, Gemma3TextConfig, PreTrainedConfig

from hargo.config.options import AdapterOptions
from hargo.errors import UserError
from hargo.models.adapt import add_adapters, plain

UNTIED_GEMMA: PreTrainedConfig = Gemma3TextConfig(
    **tiny.SIZES, head_dim=8, sliding_window=128, tie_word_embeddings=False
)


def made(family: str):
    if family != "gemma3-untied":
        return tiny.model(family)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(UNTIED_GEMMA).eval()


@pytest.mark.parametrize(
    ("family", "modules"),
    [
        ("llama", ["q_proj", "v_proj"]),
        ("llama", ["lm_head"]),
        ("llama", ["embed_tokens", "down_proj"]),
        ("llama", ["layers.0.self_attn.q_proj"]),
        ("qwen2", ["gate_proj", "o_proj"]),
        ("gemma3-untied", ["embed_tokens", "lm_head"]),
        ("gpt2", ["c_attn", "c_fc", "c_proj"]),
        ("lfm2", ["in_proj", "out_proj", "w1"]),
    ],
)
def test_the_saved_model_is_the_trained_one(tmp_path: Path, family: str, modules: list[str]) -> None:
    model = add_adapters(made(family), AdapterOptions(modules=modules), 0)
    ids = torch.randint(3, 90, (2, 9))
    before = model(input_ids=ids).logits
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_(std=0.3)
    trained = model(input_ids=ids).logits
    assert (trained - before).abs().max() > 0.1
    plain(model).save_pretrained(tmp_path)
    saved = AutoModelForCausalLM.from_pretrained(tmp_path)(input_ids=ids).logits
    torch.testing.assert_close(saved, trained, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "modules", "told"),
    [
        ("qwen2", ["q_proj", "lm_head"], "'lm_head' shares its weight.*leave it out"),
        ("qwen2", ["embed_tokens"], "'embed_tokens' shares its weight"),
        ("gpt2", ["wte"], "'wte' shares its weight"),
        ("llama", ["q_proj", "query"], "'query' is not in this model; there are .*q_proj"),
        ("llama", ["all-linear"], "'all-linear' is not in this model"),
        ("llama", ["mlp"], "'mlp' is not a linear layer"),
        ("llama", ["norm"], "'norm' is not a linear layer"),
        ("lfm2", ["conv"], "'conv' is not a linear layer"),
        ("gpt2", ["q_proj"], "there are c_attn, c_fc, c_proj"),
    ],
)
def test_modules_that_cannot_be_merged_are_one_line(family: str, modules: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told) as error:
        add_adapters(made(family), AdapterOptions(modules=modules), 0)
    assert "\n" not in str(error.value)


def test_a_layer_whose_weight_is_only_read_is_refused() -> None:
    model = made("llama")
    for layer in model.model.layers:
        projection = layer.mlp.up_proj
        weight = torch.nn.Parameter(projection.weight.detach().clone())
        layer.mlp.spare = torch.nn.Linear(32, 64, bias=False)
        layer.mlp.spare.weight = weight
    with pytest.raises(UserError, match="without calling it"):
        add_adapters(model, AdapterOptions(modules=["spare"]), 0)
