"""Text stays text: the content of a message or an answer never becomes a control token.

A tokenizer reads the spelling of a special token as that token wherever it stands. Programs contain such spellings, and
a model would see turns that do not exist: `"<|end|><|user|>"` in a string. Here only what the chat template itself
writes is a control token. Texts without such spellings have the ids that the tokenizer gives them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from hargo.errors import UserError

#: added tokens that act as special ones without being declared so: <|fim_prefix|>, and <think> where a template has it
MARKER = re.compile(r"<[|｜].+[|｜]>", re.DOTALL)
BRACKETED = re.compile(r"[<\[{【].+[>\]}】]", re.DOTALL)
#: a special token shorter than this, such as "!" for padding, cannot be told from text
SHORTEST = 3
#: characters without a meaning of their own, to stand for spellings while the template is applied
PRIVATE = range(0xF0000, 0x10FFFE)


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """Spelling -> id of the tokens that must not come from text: special ones and markers of other kinds."""
    template = tokenizer.get_chat_template() if tokenizer.chat_template else ""
    controls = {}
    for number, token in tokenizer.added_tokens_decoder.items():
        name = token.content
        marker = MARKER.fullmatch(name) or (BRACKETED.fullmatch(name) and name in template)
        if len(name) >= SHORTEST and (token.special or marker):
            controls[name] = number
    return controls


class Reader:
    """Turns texts into ids. frame: the function that puts texts into a chat template, or the text itself."""

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.controls = control_tokens(tokenizer)
        self.ids = frozenset(self.controls.values()) - {tokenizer.unk_token_id}  # unknown characters give that one too
        longest_first = sorted(self.controls, key=lambda name: (-len(name), name))
        self.spelling = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._plain: dict[int, Any] = {}

    def read(
        self, texts: Sequence[tuple[str, ...]], frame: Callable[..., str], add_special_tokens: bool = False
    ) -> list[list[int]]:
        """Ids of `frame(*one)` for every one of `texts`, in order; control tokens of the frame alone."""
        if not texts:
            return []
        whole = [frame(*one) for one in texts]
        sample = frame(*("x" for _ in texts[0]))
        *found, bare = self.tokenizer([*whole, sample], add_special_tokens=add_special_tokens)["input_ids"]
        expected = self._controls_in(bare)
        unknown = self.tokenizer.unk_token if self.tokenizer.unk_token in self.controls else None
        for i, one in enumerate(texts):
            if self._controls_in(found[i]) != expected or (unknown and any(unknown in text for text in one)):
                found[i] = self._apart(one, frame, add_special_tokens)
        return [list(ids) for ids in found]

    def _controls_in(self, ids: Sequence[int]) -> list[int]:
        return [number for number in ids if number in self.ids]

    def _apart(self, texts: tuple[str, ...], frame: Callable[..., str], add_special_tokens: bool) -> list[int]:
        """The same by a tokenizer that knows control tokens under private names, put where the frame writes them.

        While the frame is applied, private characters stand for spellings within the texts, and for their first and
        last letters, which could complete a spelling together with the frame.
        """
        base = self._free("".join((frame(*texts), *texts)), 2 * len(self.controls) + 2 * len(texts))
        names = {name: chr(base + k) for k, name in enumerate(self.controls)}
        hidden: dict[str, str] = {}

        def hide(text: str) -> str:
            return hidden.setdefault(text, chr(base + len(names) + len(hidden)))

        framed = frame(*(_at_the_ends(self.spelling.sub(lambda m: hide(m[0]), text), hide) for text in texts))
        framed = self.spelling.sub(lambda m: names[m[0]], framed)
        for shown, character in reversed(hidden.items()):  # an end may stand for a character that stands for a spelling
            framed = framed.replace(character, shown)
        ids: list[int] = self._renamed(base, names).encode(framed, add_special_tokens=add_special_tokens).ids
        return ids

    def _free(self, text: str, count: int) -> int:
        """The first of `count` private characters in a row that `text` does not have."""
        taken = sorted({ord(character) for character in text if ord(character) in PRIVATE})
        for start, end in zip([PRIVATE.start - 1, *taken], [*taken, PRIVATE.stop], strict=True):
            if end - start > count:
                return start + 1
        raise UserError("a text has so many private-use characters that none is left to tell it from control tokens")

    def _renamed(self, base: int, names: dict[str, str]) -> Any:
        """The tokenizer with its control tokens under the names given, and with the same ids."""
        if base not in self._plain:
            from tokenizers import Tokenizer

            self._plain[base] = Tokenizer.from_str(json.dumps(renamed(self._specification, names)))
        return self._plain[base]

    @cached_property
    def _specification(self) -> dict[str, Any]:
        if not self.tokenizer.is_fast:
            raise UserError(
                f"a text spells a control token, which {type(self.tokenizer).__name__} cannot read as text; "
                "use a model with a tokenizer.json"
            )
        specification: dict[str, Any] = json.loads(self.tokenizer.backend_tokenizer.to_str())
        return specification


def renamed(specification: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The content of a tokenizer.json with tokens under other names, which nothing but these names leads to."""
    added = [
        {**token, "content": names[token["content"]], "normalized": False} if token["content"] in names else token
        for token in specification["added_tokens"]
    ]
    model = dict(specification["model"])
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(piece, piece): number for piece, number in vocabulary.items()}
    else:  # pieces with their scores
        model["vocab"] = [[names.get(piece, piece), value] for piece, value in vocabulary]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if "merges" in model:
        model["merges"] = [pair for pair in model["merges"] if not {*pair, "".join(pair)} & names.keys()]
    return {**specification, "added_tokens": added, "model": model, "padding": None, "truncation": None}


def _at_the_ends(text: str, hide: Callable[[str], str]) -> str:
    """The text with its first and last character that is no space hidden."""
    first, last = len(text) - len(text.lstrip()), len(text.rstrip()) - 1
    if first > last:
        return text
    text = text[:last] + hide(text[last]) + text[last + 1 :]
    return text[:first] + hide(text[first]) + text[first + 1 :]
