"""From text to token ids: the chat template where the tokenizer has one, a plain line where it has none."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from jinja2 import TemplateError

from hargo import tasks
from hargo.config.options import ModelOptions
from hargo.data.records import Row
from hargo.errors import UserError
from hargo.models.control import Reader

PROBE = "A question?", "A rule."

#: in front of a chat template that asks for today's date: transformers' own function reads the clock, and a template
#: is given no functions from outside. `hargo_day`: directive of strftime -> text
CALENDAR = (
    "{%- macro strftime_now(format) -%}{%- set found = namespace(text=format) -%}"
    "{%- for directive, text in hargo_day.items() -%}"
    "{%- set found.text = found.text.replace(directive, text) -%}"
    "{%- endfor -%}{{ found.text }}{%- endmacro -%}"
)
DIRECTIVES = [f"%{flag}{letter}" for letter in "aAbBcdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%" for flag in ("", "-")]


@dataclass(frozen=True)
class Example:
    """A row as token ids. answer: ends with exactly one end-of-sequence id, which is a target of SFT."""

    row: Row
    prompt: list[int]
    answer: list[int]


def prompt_text(tokenizer: Any, message: str, options: ModelOptions | None = None) -> str:
    """The text that a model continues with its answer: a function of the arguments alone.

    options: for the system prompt, and for the date that templates print
    UserError where the template cannot be applied or leaves a part out.
    """
    options = options or ModelOptions()
    return _framed(tokenizer, options, message, *_system(options))


def answer_text(tokenizer: Any, ids: Sequence[int], ended: bool) -> str:
    """The text of a completion without the id that ended it. Other special tokens stay visible: they are no answer."""
    return tokenizer.decode(list(ids[:-1] if ended else ids), skip_special_tokens=False)


def encode(tokenizer: Any, rows: Sequence[Row], options: ModelOptions | None = None) -> list[Example]:
    """Token ids of every row's prompt and answer, in order. Text in either never becomes a control token."""
    if not rows:
        return []
    options = options or ModelOptions()
    templated = bool(tokenizer.chat_template)
    if templated:
        _check_template(tokenizer, options)
    reader = Reader(tokenizer)
    messages = [(tasks.load(row.task).prompt(row.prompt), *_system(options)) for row in rows]
    prompts = reader.read(messages, partial(_framed, tokenizer, options), add_special_tokens=not templated)
    answers = reader.read([(_without_end(row.answer, tokenizer.eos_token),) for row in rows], str)
    eos = tokenizer.eos_token_id
    if not templated:  # tokenizers that close every text would close the prompt too
        prompts = [prompt[:-1] if prompt[-1:] == [eos] else prompt for prompt in prompts]
    return [Example(row, p, [*a, eos]) for row, p, a in zip(rows, prompts, answers, strict=True)]


def _system(options: ModelOptions) -> tuple[str, ...]:
    return () if options.system is None else (options.system,)


def _without_end(answer: str, end: str) -> str:
    """The answer without the end-of-sequence tokens that some sources write behind it."""
    while answer.endswith(end):
        answer = answer.removesuffix(end)
    return answer


def _framed(tokenizer: Any, options: ModelOptions, message: str, *system: str) -> str:
    """The message in the chat template, or behind the system prompt."""
    if not tokenizer.chat_template:
        return "\n\n".join(part for part in (*system, message) if part) + "\n"
    messages = [{"role": "system", "content": text} for text in system]
    messages.append({"role": "user", "content": message})
    try:
        dated = _dated(tokenizer.get_chat_template(), options.date)
        with _same_random_numbers():
            return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **dated)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        hint = "; set model.system to null if it takes no system prompt" if system else ""
        raise UserError(f"the model's chat template cannot be applied: {reason}{hint}") from None


@cache
def _dated(template: str, date: dt.date) -> dict[str, Any]:
    """What `apply_chat_template` needs for a template that asks for the date to get this one."""
    if "strftime_now" not in template:
        return {}
    midnight = dt.datetime.combine(date, dt.time(), dt.UTC)
    return {"chat_template": CALENDAR + template, "hargo_day": {name: midnight.strftime(name) for name in DIRECTIVES}}


def _check_template(tokenizer: Any, options: ModelOptions) -> None:
    """UserError where the chat template silently drops the question or the system prompt."""
    question, rule = PROBE
    parts = (question,) if options.system is None else PROBE
    text = _framed(tokenizer, options, *parts)
    if question not in text:
        raise UserError("the model's chat template leaves out the user's message; fix chat_template.jinja")
    if options.system is not None and rule not in text:
        raise UserError("the model's chat template leaves out the system prompt; set model.system to null")


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Templates may draw from Python's random numbers: always the same ones, with the state restored afterwards."""
    state = random.getstate()
    random.seed(0)
    try:
        yield
    finally:
        random.setstate(state)
