"""A small model built from scratch: byte-level BPE tokenizer with a chat template, Llama or Qwen2 weights at random."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hargo.config.options import ScratchOptions

PAD, BOS, USER, ASSISTANT, END = "<|pad|>", "<|bos|>", "<|user|>", "<|assistant|>", "<|end|>"

CHAT_TEMPLATE = (
    "{{ '" + BOS + "' }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '" + USER + "' + message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ '" + ASSISTANT + "' + message['content'] + '" + END + "' }}"
    "{% else %}{{ message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + ASSISTANT + "' }}{% endif %}"
)

# what BPE may merge: a directive, a run of words, a number, a run of signs. Stock phrases become one token and names
# stay apart from the signs around them: kernels take a third fewer tokens than with words as pieces
PIECES = "|".join(
    [
        r" ?#include <[^>\n]*>",
        r"#pragma omp[a-z ]*[a-z]",
        r"!\$omp[a-z ]*[a-z]",
        r"\n *",
        r'"[^"\n]*"',
        r" ?[0-9]+",
        r" ?[A-Za-z_]+(?: [A-Za-z_]+)*",
        r" ?[^\sA-Za-z_0-9]+",
        r"\s+",
    ]
)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A byte-level BPE tokenizer trained on `texts`, of at most `vocabulary` tokens."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    specials = [PAD, BOS, USER, ASSISTANT, END]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=END,
        clean_up_tokenization_spaces=False,
    )
    fast.add_special_tokens({"additional_special_tokens": [USER, ASSISTANT]})
    fast.chat_template = CHAT_TEMPLATE
    return fast


def make_config(options: ScratchOptions, vocabulary: int, **ids: int | None) -> Any:
    """The configuration of a scratch model; `ids`: those of special tokens."""
    from transformers import LlamaConfig, Qwen2Config

    kind = {"llama": LlamaConfig, "qwen2": Qwen2Config}[options.architecture]
    return kind(
        vocab_size=vocabulary,
        hidden_size=options.hidden,
        intermediate_size=options.intermediate,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.heads,
        max_position_embeddings=options.context,
        tie_word_embeddings=True,
        **ids,
    )


def build_model(options: ScratchOptions, tokenizer: Any) -> Any:
    """A model with random weights, a function of `options.seed` alone."""
    import torch
    from transformers import AutoModelForCausalLM

    ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config = make_config(options, len(tokenizer), **ids)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32)
