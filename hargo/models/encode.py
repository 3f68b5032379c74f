"""From text to token ids: the chat template where the tokenizer has one, a plain line where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hargo import tasks
from hargo.data.records import Row


@dataclass(frozen=True)
class Example:
    """A row as token ids. answer: ends with exactly one end-of-sequence id, which is a target of SFT."""

    row: Row
    prompt: list[int]
    answer: list[int]


def prompt_text(tokenizer: Any, message: str, system: str | None) -> str:
    """The text that a model continues with its answer."""
    if not tokenizer.chat_template:
        return "\n\n".join(part for part in (system, message) if part) + "\n"
    messages = [{"role": "user", "content": message}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def answer_text(tokenizer: Any, ids: Sequence[int], ended: bool) -> str:
    """The text of a completion without the id that ended it. Other special tokens stay visible: they are no answer."""
    return tokenizer.decode(list(ids[:-1] if ended else ids), skip_special_tokens=False)


def encode(tokenizer: Any, rows: Sequence[Row], system: str | None = None) -> list[Example]:
    """Token ids of every row's prompt and answer, in order."""
    if not rows:
        return []
    templated = bool(tokenizer.chat_template)
    texts = [prompt_text(tokenizer, tasks.load(row.task).prompt(row.prompt), system) for row in rows]
    prompts = tokenizer(texts, add_special_tokens=not templated)["input_ids"]
    answers = tokenizer([row.answer for row in rows], add_special_tokens=False)["input_ids"]
    eos = tokenizer.eos_token_id
    examples = []
    for row, prompt, answer in zip(rows, prompts, answers, strict=True):
        if not templated and prompt and prompt[-1] == eos:
            prompt = prompt[:-1]  # tokenizers that close every text would close the prompt too
        while answer and answer[-1] == eos:
            answer = answer[:-1]
        examples.append(Example(row, list(prompt), [*answer, eos]))
    return examples
