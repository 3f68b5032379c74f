"""Tiny models and rows that several tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    Lfm2Config,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
)

from hargo.config import Study, study_from
from hargo.data.records import Row, save_rows

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "gemma2": Gemma2Config(**SIZES, head_dim=8, sliding_window=128),
    "gemma3": Gemma3TextConfig(**SIZES, head_dim=8, sliding_window=128),
    # windows shorter than the texts of the tests
    "gemma3-window": Gemma3TextConfig(
        **SIZES, head_dim=8, sliding_window=4, layer_types=["sliding_attention", "full_attention"]
    ),
    "mistral-window": MistralConfig(**SIZES, sliding_window=4),
    "gpt2": GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=256, bos_token_id=1, eos_token_id=2),
}


#: its convolutions run over neighbours in a row, whatever the mask
UNPACKABLE = Lfm2Config(**SIZES, layer_types=["conv", "full_attention"])


def model(family: str = "llama", seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """A random model of two layers, weights large enough for its distributions to differ from uniform."""
    torch.manual_seed(seed)
    made = AutoModelForCausalLM.from_config(FAMILIES.get(family, UNPACKABLE), dtype=dtype).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.2)
    return made


def in_full_precision(model):
    """RMSNorm in transformers works in float32 whatever the model's type: here it works in the model's own."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            shift = 1.0 if type(module).__name__.startswith("Gemma") else 0.0
            eps = getattr(module, "eps", None) or module.variance_epsilon

            def forward(x, weight=module.weight, shift=shift, eps=eps):
                return (shift + weight) * x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()

            module.forward = forward
    return model


def row(number: int, split: str = "train") -> Row:
    """A race question whose answer can be read off the index."""
    racy = number % 2
    name, size = "abcdefgh"[number % 8], 10 + number % 90
    prompt = (
        f"#pragma omp parallel for\nfor (int i = 0; i < {size}; i++) {name}[i{' + 1' if racy else ''}] = {name}[i];"
    )
    return Row(f"race_c/{number:05d}", "race_c", prompt, "yes" if racy else "no", {"split": split})


def study(**overrides: Any) -> Study:
    """A study of seconds: a scratch model, one task, few steps."""
    value: dict[str, Any] = {
        "name": "tiny",
        "tasks": ["race_c"],
        "data": {"source": "embedded", "protocol": "given"},
        "model": {"source": "scratch", "scratch": {"vocabulary": 320, "hidden": 32, "layers": 2, "intermediate": 64}},
        "pretrain": {"steps": 3, "batch_size": 4},
        "sft": {"epochs": 1, "batch_size": 8, "learning_rate": 3e-3, "max_steps": 9, "checkpoint_every": 2},
        "rl": {"max_steps": 7, "prompts_per_step": 4, "learning_rate": 1e-3, "checkpoint_every": 2},
        "methods": {"grpo": {}, "hargo": {}},
        "compute": {"threads": 1, "device": "cpu"},
    }
    if overrides.get("model", {}).get("source", "scratch") != "scratch":
        del value["model"]["scratch"]
    for key, extra in overrides.items():
        value[key] = {**value[key], **extra} if isinstance(value.get(key), dict) and isinstance(extra, dict) else extra
    return study_from(value, "tests")


def write_data(folder: Path, train: int = 96, evaluation: int = 24) -> Path:
    save_rows(folder / "train.jsonl", [row(i) for i in range(train)])
    save_rows(folder / "eval.jsonl", [row(1000 + i, "eval") for i in range(evaluation)])
    return folder
