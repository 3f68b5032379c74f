"""What a sampler is given, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

from hargo.engine.layout import Past


@dataclass(frozen=True)
class Request:
    """prompt: token ids; limit: most new tokens; stream: what the sampling of this prompt depends on."""

    prompt: list[int]
    limit: int
    stream: str = ""


@dataclass(frozen=True)
class Completion:
    """ids: sampled tokens, ending with a stop id if `ended`; logp: of each, at the sampling temperature."""

    ids: list[int]
    logp: list[float]
    ended: bool


@dataclass(frozen=True)
class Rollout:
    """completions: [requests][samples], in the order of the requests

    past: the prompts as they were read, with a gradient, for a training pass over the completions; None where they
        were not kept
    """

    completions: list[list[Completion]]
    past: Past | None = None
