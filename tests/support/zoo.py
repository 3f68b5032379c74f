"""A tiny random model of every causal language model that the installed transformers can build from a configuration.

`build(family)` gives one, or raises `Left` with the reason why the family has none here.
`make models` writes what is found of all of them to docs/models.md.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from hargo.engine import small
from hargo.engine.capability import capability
from hargo.engine.small import shrink
from hargo.engine.tryout import FAILURES

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


def samples(family: str) -> str:
    """`yes` where greedy rollouts are the model's own most likely tokens, step by step; else why not."""
    from sampling import generate

    from hargo.errors import UserError
    from hargo.rollout import Request

    model = build(family, torch.float64).double()
    if capability(model).verdict == "refused":
        return "no"
    prompts = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [15, 16, 17, 18, 19, 20, 21, 22, 23]]
    try:
        with torch.no_grad(), small.in_double():
            found = generate(model, [Request(prompt, 6) for prompt in prompts], stop=[], pad=0, samples=2)
            for prompt, answers in zip(prompts, found, strict=True):
                text = list(prompt)
                for _ in range(6):
                    text.append(int(model(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1].argmax()))
                if any(answer.ids != text[len(prompt) :] for answer in answers):
                    return "no, its cache and its reading of whole texts differ"
    except (UserError, *FAILURES) as error:
        return f"no, {type(error).__name__}"
    return "yes"


PAGE = """# Models

This page lists every family of causal language models that transformers {version} can build from a configuration.
`make models` tests each at a size of kilobytes with random weights, and writes this page. `hargo doctor --config STUDY`
says the same about a study's model, and `hargo model prepare` and `hargo train` refuse a model that cannot be trained
before they do any work.

- **packs**: a prompt is read once for all of its answers, several groups in one row, and the result is that of each
  sequence alone. *by layout*: with our attention function on a CPU, no dense mask; *by mask*: with dense masks, as on
  a GPU.
- **padded**: each answer is read behind its own prompt, padded on the right, which is correct for every causal model
  but takes longer. `tokens_per_pass` then counts padded tokens.
- **refused**: neither is correct.
- **samples**: greedy rollouts in double precision are the most likely tokens of whole texts.

The verdict comes from a small copy of the architecture in double precision, with windows and chunks of a few tokens and
rows that are longer. Right values agree to twelve digits and wrong ones differ in the first, so the rounding of the
processor does not matter. A model of a later version of transformers is tested in the same way.

A small copy does not show two things. Rotary scaling that changes with the length of the text (`longrope`, `dynamic`)
sees the longest text of a row: it is exact as long as all texts are within the original context. And sparse attention
that keeps a number of keys (`index_topk`) is tested only with texts shorter than that number.

| family | verdict | samples | reason |
|---|---|---|---|
"""


def page() -> str:
    rows = []
    for family in families():
        try:
            found = capability(config(family))
        except Left as reason:
            rows.append(f"| {family} | not tried | | {reason} |")
            continue
        how = f"packs, by {found.way}" if found.packs else found.verdict
        rows.append(f"| {family} | {how} | {samples(family)} | {found.reason} |")
    return PAGE.format(version=transformers.__version__) + "\n".join(rows)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print(page())
