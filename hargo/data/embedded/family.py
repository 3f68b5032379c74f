"""How a family of kernels is written down and found."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from inspect import cleandoc

from hargo.data.embedded.names import draw_size
from hargo.data.embedded.program import Sketch


class Draw:
    """The random choices open to a family.

    n: even array length; k: small distance; language: "c" or "fortran"
    hard: use the variants that need a closer look (which variable, which name, which distance)
    """

    def __init__(self, rng: random.Random, language: str, evaluation: bool, small: bool) -> None:
        self.rng, self.language = rng, language
        self.n = draw_size(rng, evaluation, small)
        self.k = rng.randint(1, 4)
        self.hard = rng.random() < 0.15

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def value(self) -> str:
        """Something to compute in iteration I that only reads arrays nobody writes in the loop."""
        return self.pick("B[I]", "B[I] * 2", "B[I] + C[I]", "B[I] - 1", "B[I] * C[I]", "I", "2 * I", "C[I] + 1")

    def offset(self) -> str:
        """` + something` or nothing, to end an expression with."""
        return self.pick("", " + 1", " * 2", " - 2", " + I", " + C[I]", " * 3")

    def noise(self) -> str:
        """One more statement of a loop over I, on an array of its own, or nothing."""
        if self.rng.random() > 0.2:
            return ""
        return self.pick("D[I] = I", "D[I] = C[I]", "D[I] += 1", "D[I] = D[I] * 2", "D[I] = C[I] + I")


Builder = Callable[[Draw, bool], Sketch | str]


@dataclass(frozen=True)
class Family:
    """Kernels that go wrong, or right, for one reason.

    theme: families of one theme are relatives; small: needs small arrays (matrices)
    weight: how often the family takes its turn
    """

    name: str
    theme: str
    build: Builder
    languages: tuple[str, ...]
    small: bool
    weight: int

    def sketch(self, draw: Draw, racy: bool) -> Sketch:
        made = self.build(draw, racy)
        return made if isinstance(made, Sketch) else Sketch(made, draw.n)


#: every family by name, filled by the modules that hold them
FAMILIES: dict[str, Family] = {}


def family(
    theme: str, languages: tuple[str, ...] = ("c", "fortran"), small: bool = False, weight: int = 1
) -> Callable[[Builder], Builder]:
    """Register a function `(draw, racy) -> Sketch or pseudo-code` under its own name."""

    def register(build: Builder) -> Builder:
        name = build.__name__
        assert name not in FAMILIES, name
        FAMILIES[name] = Family(name, theme, build, languages, small, weight)
        return build

    return register


def code(text: str) -> str:
    """Pseudo-code written inside a function, without the indentation of that function."""
    return cleandoc(text)
