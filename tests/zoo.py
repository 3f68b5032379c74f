"""A tiny random model of every causal language model that the installed transformers can build from a configuration.

`build(family)` gives one, or raises `Left` with the reason why the family has none here.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import CONFIG_MAPPING, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from hargo.models import small
from hargo.models.small import shrink

DECODER = {"is_decoder": True}
ENCODERS = (
    "bert bert-generation big_bird camembert data2vec-text electra ernie megatron-bert rembert roberta"
    " roberta-prelayernorm roc_bert roformer xlm-roberta xlm-roberta-xl"
)
#: what a family's models say and its configuration leaves open
GIVEN: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 1},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 16},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 256,
        "indexer_budget": 24,
        "indexer_compress_ratio": 2,
    },
    "reformer": DECODER,
    "xmod": {**DECODER, "default_language": "en_XX"},
    **dict.fromkeys(ENCODERS.split(), DECODER),
}

#: families without a model here, and why
LEFT: dict[str, str] = {
    "blt": "reads bytes in patches that a model of their entropy cuts",
    "dbrx": "transformers 5.24 cannot build it: its attention asks for a key that its configuration no longer has",
    "dots3_note": "sizes of pictures' and sounds' parts that go together; its text model is dots3_note_text",
    "emu3": "its text model cannot be loaded from the folder that it is saved to",
    "mllama": "its text model cannot be loaded from the folder that it is saved to",
    "gemma3n": "needs timm, for pictures; its text model is gemma3n_text",
    "gemma4_assistant": "drafts for another model, whose states it reads",
    "gemma4_unified_assistant": "drafts for another model, whose states it reads",
    "got_ocr2": "a pictures' encoder before a decoder; it has no text model of its own",
    "moshi": "makes speech",
    "musicgen": "makes music",
    "musicgen_melody": "makes music",
    "qwen4_exp": "a default configuration that cannot be built; its text model is qwen4_exp_text",
}


class Left(Exception):
    """A family that has no model here; says why."""


def families() -> list[str]:
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def config(family: str, **more: Any) -> PretrainedConfig:
    """A small configuration of the family; `more`: keys to set besides."""
    if family in LEFT:
        raise Left(LEFT[family])
    return shrink(CONFIG_MAPPING[family](**GIVEN.get(family, {})), **more)


def build(family: str, dtype: torch.dtype = torch.float32, seed: int = 0, **more: Any) -> Any:
    """A random model of the family in evaluation mode, its weights large enough for distributions unlike uniform."""
    return small.build(config(family, **more), dtype, seed)
