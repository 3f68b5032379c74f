"""A model's architecture at a size of kilobytes, in double precision: what holds for it holds for the model.

What decides how a model may be computed (masks, windows, chunks, states, positions) is in its classes and the kinds of
its layers, not in how wide it is. So a question such as "does a packed row give the same as its sequences alone?" is
put to a copy with random weights, a few layers, windows and chunks of a few tokens, where right answers agree to
twelve digits and wrong ones differ in the first: rounding, which differs from machine to machine, decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

#: small values of whole numbers, by the names that configurations have for them
SMALL: dict[int, str] = {
    97: "vocab_size vocab_size_per_layer_input unpadded_vocab_size decoder_vocab_size pronunciation_vocab_size"
    " shape_vocab_size",
    512: "max_position_embeddings n_positions n_ctx max_seq_len model_max_length context_length max_target_positions"
    " original_max_position_embeddings",
    64: "intermediate_size moe_intermediate_size shared_expert_intermediate_size ffn_dim decoder_ffn_dim"
    " encoder_ffn_dim n_inner ffn_hidden_size expert_ffn_hidden_size dff dim_ff d_inner feed_forward_size"
    " shared_intermediate_size intermediate_size_mlp dense_intermediate_size moe_shared_expert_intermediate_size"
    " mamba_d_ssm shared_experts_intermediate_size",
    32: "hidden_size n_embd d_model n_embed emb_dim embedding_dim embedding_size attention_hidden_size"
    " word_embed_proj_dim lru_width dim_model_base input_embedding_size output_embedding_size pronunciation_embed_dim"
    " shape_embed_dim",
    # longer than the texts that are tried, shorter than a row of them
    24: "index_topk indexer_budget",
    16: "attention_head_dim ssm_state_size mamba_head_dim mamba_headdim mamba_d_head qk_head_dim router_hidden_size"
    " linear_value_head_dim hc_lowrank ple_embed_dim q_lora_rank",
    8: "head_dim d_head attention_head_size qk_nope_head_dim qk_rope_head_dim v_head_dim kv_lora_rank kv_channels"
    " query_pre_attn_scalar dim_head index_head_dim indexer_head_dim linear_key_head_dim linear_head_dim swa_head_dim"
    " mamba_d_state state_size time_step_rank mamba_dt_rank laurel_rank hidden_size_per_layer_input rotary_dim"
    " o_lora_rank gated_norm_rank d_rel loop_gate_rank adapter_rank",
    6: "sliding_window sliding_window_size window_size attention_window_size attention_chunk_size local_attention"
    " keep_window_size rel_extent local_attention_window_len",
    4: "num_attention_heads n_head n_heads num_heads attention_heads decoder_attention_heads encoder_attention_heads"
    " num_experts n_routed_experts num_local_experts moe_num_experts swa_num_attention_heads mamba_n_heads"
    " n_mamba_heads mamba_num_heads linear_num_value_heads linear_num_heads chunk_size mamba_chunk_size block_size"
    " floor_scale index_n_heads zero_expert_num log_scaling_n_floor num_query_groups index_block_size"
    " num_decoder_attention_heads num_encoder_attention_heads",
    2: "num_hidden_layers n_layer n_layers num_layers decoder_layers encoder_layers num_blocks num_experts_per_tok"
    " num_experts_per_token moe_topk moe_k swa_num_key_value_heads linear_num_key_heads n_groups mamba_ngroups"
    " sliding_window_pattern no_rope_layer_interval attn_layer_period expert_layer_period num_layers_per_stack o_groups"
    " num_decoder_layers num_encoder_layers n_input_layers n_recurrent_layers n_output_layers index_topk_blocks"
    " global_attn_every_n_layers layer_group_size",
    1: "n_group num_expert_group topk_group n_shared_experts num_shared_experts moe_num_shared_experts"
    " attn_layer_offset expert_layer_offset first_k_dense_replace num_dense_layers moe_layer_start_index mamba_n_groups"
    " num_nextn_predict_layers num_kv_shared_layers moe_layer_end_index",
}
SIZES = {name: size for size, names in SMALL.items() for name in names.split()}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks")
MOST_KINDS = 6
APART = ("transformers_version", "dtype", "architectures", "quantization_config")

_ALTERNATING = ["linear_attention", "hybrid", "linear_attention", "hybrid", "linear_attention"]
#: sizes of a family that go together
TOGETHER: dict[str, dict[str, Any]] = {
    "dory": {
        "num_hidden_layers": 6,
        "layer_types": ["sliding_attention", "mlp", "full_attention", "mlp", "sliding_attention", "mlp"],
    },
    "dots3_note_text": {"head_dim": 16},
    "falcon_h1": {"mamba_d_head": 16},
    "hrm_text": {"num_hidden_layers": 16},
    "mamba2": {"head_dim": 16},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"axial_pos_embds": False},
    # its chunks are computed only where keys are as wide as values
    "xlstm": {"hidden_size": 64, "embedding_dim": 64, "qk_dim_factor": 1.0},
    "zamba": {"attention_hidden_size": 64, "num_hidden_layers": 5, "layers_block_type": _ALTERNATING},
    "zamba2": {
        "attention_hidden_size": 64,
        "num_hidden_layers": 5,
        "layers_block_type": _ALTERNATING,
        "hybrid_layer_ids": [1, 3],
    },
}


def shrink(config: Any, **more: Any) -> Any:
    """The configuration of the same architecture with one layer of every kind, short windows and chunks.

    more: keys to set besides
    Raises what the configuration's class raises where the small sizes do not go together.
    """
    fields = {name: value for name, value in config.to_dict().items() if name not in APART}
    layers = next((fields[name] for name in LAYERS if isinstance(fields.get(name), int)), 0)
    lists = {k: v for k, v in fields.items() if isinstance(v, list | tuple) and len(v) == layers > 2}
    kinds: dict[str, int] = {}
    for layer in range(layers):
        kinds.setdefault(repr([values[layer] for values in lists.values()]), layer)
    numbers = sorted({*list(kinds.values())[:MOST_KINDS], 0, 1}) if lists else [0, 1]
    small: dict[str, Any] = {}
    for name, value in fields.items():
        if name in lists:
            small[name] = [_small(name, value[layer], fields) for layer in numbers]
        elif name in LAYERS and value:
            small[name] = len(numbers)
        elif name == "per_layer_config":
            small[name] = {
                numbers.index(int(layer)): {k: _small(k, v, {**fields, **own}) for k, v in own.items()}
                for layer, own in value.items()
                if int(layer) in numbers
            }
        elif isinstance(value, dict) and hasattr(inner := getattr(config, name, None), "to_dict"):
            small[name] = shrink(inner).to_dict()
        else:
            small[name] = _small(name, value, fields)
    return type(config)(**{**small, **TOGETHER.get(config.model_type, {}), **more})


def _small(name: str, value: Any, given: dict[str, Any]) -> Any:
    """A small value for one key of a configuration."""
    if name in IDS:
        return IDS[name]
    if name.endswith(("_token_id", "_token_index")):
        return 3
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if name in ("num_key_value_heads", "num_kv_heads"):
        of_every_head = value == given.get("num_attention_heads")
        size = min(value, SIZES["num_attention_heads"] if of_every_head else 2)
    else:
        size = min(value, SIZES.get(name, value))
    # one, two or four heads divide all widths here
    return 2 if size == 3 and name.endswith("heads") else size


def build(config: Any, dtype: torch.dtype, seed: int = 0, **more: Any) -> Any:
    """A model of random weights in evaluation mode, on the CPU; the global random stream is left where it was.

    No weight is left at a value such as the 0 or 1 of a gate or norm, which could hide a fault.
    more: goes to `from_config`
    """
    from transformers import AutoModelForCausalLM

    # the others have no float64
    more = {**more, "experts_implementation": "eager"}
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, **more).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                noise = 0.2 * torch.randn_like(parameter)
                parameter.copy_(noise if parameter.ndim >= 2 else parameter + noise)
    return model


@contextmanager
def in_double() -> Iterator[None]:
    """While open, what a model would compute in float32 or less whatever its own type, it computes in float64.

    Norms, softmax and rotary angles usually say `float32` themselves.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _InDouble(), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.set_default_dtype(before)


class _InDouble(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            return args[0].double()
        return func(*map(_double, args), **{name: _double(value) for name, value in (kwargs or {}).items()})


def _double(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value
