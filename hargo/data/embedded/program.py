"""Kernels in pseudo-code, and what writing them out has in common in C and Fortran.

The pseudo-code is indented by two spaces and knows these lines:

    for I in 0..N-1 [step 2]     a counted loop, both ends included, counted from 0
    if A[I] > S                  a condition
    omp parallel for ?           a directive; `?` lets harmless clauses in, `inner(J)` makes J private
                                 by whatever means the language offers
    call F(S)                    a procedure call
    S += A[I] * 2                anything else is an assignment

One capital letter is a role, not a name: A-D arrays, H and W short arrays, M and Q matrices, P an integer
index array, S-V scalars, X-Z integers, I J L loop variables, G and O locks, F a procedure, N the array length.
Declarations follow from the roles in use.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from hargo.data.embedded.names import TYPES, draw_names

ROLE = re.compile(r"\b[A-Z]\b")
FOR = re.compile(r"for (\w) in ([^.]+)\.\.(.+?)(?: step (\d+))?$")
_BOUND = re.compile(r"([A-Z]?)(?:([+-]?)(\d+))?$")
OPERATION = re.compile(r"(.+?) ([+*-])= (.+)")
STANDALONE = ("barrier", "taskwait", "flush", "threadprivate")


@dataclass(frozen=True)
class Sketch:
    """A kernel before it has names.

    code: pseudo-code
    n: array length; short: length of the short arrays H and W
    functions: (C text before main, Fortran text after `contains`), with roles
    print_after: what the program prints; by default one of the arrays or scalars
    shared_index: the C loop variables are declared outside the loops (the kernel depends on it)
    """

    code: str
    n: int
    short: int = 8
    functions: tuple[str, str] | None = None
    print_after: str | None = None
    shared_index: bool = False


@dataclass
class Node:
    text: str
    children: list[Node] = field(default_factory=list)


def parse(code: str) -> list[Node]:
    root = Node("")
    stack = [root]
    for line in code.split("\n"):
        if not line.strip():
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        node = Node(line.strip())
        del stack[depth + 1 :]
        stack[depth].children.append(node)
        stack.append(node)
    return root.children


def roles_of(sketch: Sketch) -> list[str]:
    """The roles a sketch uses, in order of appearance, N and I included."""
    text = sketch.code + "".join(sketch.functions or ())
    return list(dict.fromkeys([*ROLE.findall(text), "N", "I"]))


class Writer(ABC):
    """What C and Fortran have in common. One writer writes one program."""

    def __init__(self, sketch: Sketch, rng: random.Random, evaluation: bool) -> None:
        self.sketch, self.rng = sketch, rng
        self.roles = roles_of(sketch)
        self.names = draw_names(rng, self.roles, evaluation)
        types = TYPES if rng.random() < 0.8 else TYPES[:1]
        self.ctype, self.format, self.ftype = rng.choice(types)
        self.size_style = rng.choice(["literal", "constant", "variable"])
        if self.size_style == "literal":
            self.names["N"] = str(sketch.n)
        self.compound = rng.random() < 0.7
        self.nodes = parse(sketch.code)
        self.hoisted = [node for node in self.nodes if node.text.startswith("omp threadprivate")]
        self.nodes = [node for node in self.nodes if node not in self.hoisted]
        self.arrays = [role for role in self.roles if role in "ABCD"]
        self.lines: list[str] = []

    def having(self, letters: str) -> list[str]:
        return [role for role in self.roles if role in letters]

    def name(self, text: str) -> str:
        return ROLE.sub(lambda match: self.names.get(match[0], match[0]), text)

    def sum(self, symbol: str, offset: int) -> str:
        """`symbol + offset`, folded where the symbol is a number or missing."""
        value = self.names[symbol] if symbol else "0"
        if value.isdigit():
            return str(int(value) + offset)
        return value if offset == 0 else f"{value} {'-' if offset < 0 else '+'} {abs(offset)}"

    def out(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def clauses(self, text: str) -> tuple[str, list[str]]:
        """Directive words and shuffled clauses, `?` and `inner` resolved."""
        match = re.match(r"((?:[a-z]+(?: |$))+(?:\(\w+\))?)(.*)", text)
        assert match, text
        words, rest = match[1].strip(), match[2]
        free = "?" in rest
        found = re.findall(r"\w+(?:\((?:[^()]|\([^()]*\))*\))", rest)
        flags = [word for word in ("nowait", "ordered") if words.endswith(" " + word) and words != word]
        for flag in flags:
            words = words.removesuffix(" " + flag)
        found = [clause for clause in found if not clause.startswith("inner")] + [
            clause for clause in map(self.inner, re.findall(r"inner\((\w)\)", rest)) if clause
        ]
        if free:
            found += self.harmless(words, " ".join(found))
        self.rng.shuffle(found)
        return words, [self.name(clause) for clause in [*[f for f in flags if f == "ordered"], *found]] + [
            flag for flag in flags if flag == "nowait"
        ]

    @abstractmethod
    def inner(self, role: str) -> str:
        """The clause that gives the variable of an inner loop a copy per thread, or nothing where it needs none."""

    def harmless(self, words: str, present: str) -> list[str]:
        """Clauses that change nothing about which accesses can meet."""
        found, rng = [], self.rng
        if "for" in words.split() and rng.random() < 0.2 and "schedule" not in present:
            kinds = ["static", "dynamic", "guided", "static, 4", "dynamic, 2", "static, 1", "dynamic, 8"]
            found.append(f"schedule({rng.choice(kinds)})")
        if words.startswith("parallel"):
            if rng.random() < 0.1 and "num_threads" not in present:
                found.append(f"num_threads({rng.choice([2, 4, 8])})")
            listed = set(ROLE.findall(present))
            rest = [role for role in self.having("ABCDMQHP") if role not in listed]
            if rest and rng.random() < 0.12:
                found.append(f"shared({', '.join(rest[: rng.choice([1, 2])])})")
            elif rng.random() < 0.05:
                found.append("default(shared)")
        return found

    def shown(self) -> str:
        """The element or scalar that the program prints."""
        if self.sketch.print_after:
            return self.sketch.print_after
        arrays = self.having("A" if self.rng.random() < 0.8 else "ABCD")
        candidates = [f"{role}[{self.rng.randrange(1, 12)}]" for role in arrays]
        candidates += [f"{role}[1][{self.rng.randrange(1, 6)}]" for role in self.having("MQ")]
        return self.rng.choice(candidates or self.having("HWSTUV"))

    def setup(self) -> list[Node]:
        """A sequential (sometimes parallel) loop that fills some of the arrays."""
        rng = self.rng
        chosen = [role for role in self.arrays if rng.random() < 0.5]
        used = set(ROLE.findall(self.sketch.code)) | (set("IN") if chosen else set())
        self.roles = [role for role in self.roles if role in used]
        if not chosen:
            return []
        values = ["I", "1", "0", "I + 1", "2 * I", "I % 7", "3"]
        lines = ["for I in 0..N-1", *(f"  {role}[I] = {rng.choice(values)}" for role in chosen)]
        if rng.random() < 0.15:
            lines = ["omp parallel for ?", *("  " + line for line in lines)]
        return parse("\n".join(lines))


def filled_by(setup: list[Node]) -> set[str]:
    """The arrays that the setup loop writes."""
    if not setup:
        return set()
    loop = setup[0] if setup[0].text.startswith("for") else setup[0].children[0]
    return {node.text[0] for node in loop.children}


def bound(text: str) -> tuple[str, int]:
    match = _BOUND.fullmatch(text)
    assert match, text
    return match[1], int((match[2] or "") + (match[3] or "0"))
