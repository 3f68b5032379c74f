"""From a kernel in pseudo-code to a complete C or Fortran program.

The pseudo-code is indented by two spaces and knows these lines:

    for I in 0..N-1 [step 2]     a counted loop, both ends included, counted from 0
    if A[I] > S                  a condition
    omp parallel for ?           a directive; `?` lets harmless clauses in, `inner(J)` makes J private
                                 by whatever means the language offers
    call F(S)                    a procedure call
    c: text / f: text            a line for one language only
    S += A[I] * 2                anything else is an assignment

One capital letter is a role, not a name: A-D arrays, H and W short arrays, M and Q matrices, P an integer
index array, S-V scalars, X-Z integers, I J L loop variables, G and O locks, F a procedure, N the array length.
Declarations follow from the roles in use.

Fortran arrays start at 1 where every index is a loop variable plus a constant: then shifting the loop bounds
by one moves all accesses by one. Otherwise they are declared from 0, so that the arithmetic stays as written.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from hargo.data.embedded.names import TYPES, draw_names

_ROLE = re.compile(r"\b[A-Z]\b")
_INDEX = re.compile(r"\[([^\[\]]+)\]")
_UNIT = re.compile(r"[IJL]( [+-] \d+)?")
_FOR = re.compile(r"for (\w) in ([^.]+)\.\.(.+?)(?: step (\d+))?$")
_BOUND = re.compile(r"([A-Z]?)(?:([+-]?)(\d+))?$")
_OPERATION = re.compile(r"(.+?) ([+*-])= (.+)")
_STANDALONE = ("barrier", "taskwait", "flush", "threadprivate")


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
class _Node:
    text: str
    children: list[_Node] = field(default_factory=list)


def _parse(code: str) -> list[_Node]:
    root = _Node("")
    stack = [root]
    for line in code.split("\n"):
        if not line.strip():
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        node = _Node(line.strip())
        del stack[depth + 1 :]
        stack[depth].children.append(node)
        stack.append(node)
    return root.children


def roles_of(sketch: Sketch) -> list[str]:
    """The roles a sketch uses, in order of appearance, N and I included."""
    text = sketch.code + "".join(sketch.functions or ())
    return list(dict.fromkeys([*_ROLE.findall(text), "N", "I"]))


class _Writer:
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
        self.nodes = _parse(sketch.code)
        self.hoisted = [node for node in self.nodes if node.text.startswith("omp threadprivate")]
        self.nodes = [node for node in self.nodes if node not in self.hoisted]
        self.arrays = [role for role in self.roles if role in "ABCD"]
        self.lines: list[str] = []

    def having(self, letters: str) -> list[str]:
        return [role for role in self.roles if role in letters]

    def name(self, text: str) -> str:
        return _ROLE.sub(lambda match: self.names.get(match[0], match[0]), text)

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

    def inner(self, role: str) -> str:
        raise NotImplementedError

    def harmless(self, words: str, present: str) -> list[str]:
        """Clauses that change nothing about which accesses can meet."""
        found, rng = [], self.rng
        if "for" in words.split() and rng.random() < 0.35 and "schedule" not in present:
            kinds = ["static", "dynamic", "guided", "static, 4", "dynamic, 2", "static, 1", "dynamic, 8"]
            found.append(f"schedule({rng.choice(kinds)})")
        if words.startswith("parallel"):
            if rng.random() < 0.2 and "num_threads" not in present:
                found.append(f"num_threads({rng.choice([2, 4, 8])})")
            listed = set(_ROLE.findall(present))
            rest = [role for role in self.having("ABCDMQHP") if role not in listed]
            if rest and rng.random() < 0.25:
                found.append(f"shared({', '.join(rest[: rng.choice([1, 2])])})")
            elif rng.random() < 0.1:
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

    def setup(self) -> list[_Node]:
        """A sequential (sometimes parallel) loop that fills some of the arrays."""
        rng = self.rng
        chosen = [role for role in self.arrays if rng.random() < 0.5]
        used = set(_ROLE.findall(self.sketch.code)) | (set("IN") if chosen else set())
        self.roles = [role for role in self.roles if role in used]
        if not chosen:
            return []
        values = ["I", "1", "0", "I + 1", "2 * I", "I % 7", "3"]
        lines = ["for I in 0..N-1", *(f"  {role}[I] = {rng.choice(values)}" for role in chosen)]
        if rng.random() < 0.15:
            lines = ["omp parallel for ?", *("  " + line for line in lines)]
        return _parse("\n".join(lines))


class _C(_Writer):
    def inner(self, role: str) -> str:
        return f"private({role})" if not self.inline else ""

    def program(self) -> str:
        rng, sketch = self.rng, self.sketch
        self.inline = not sketch.shared_index and rng.random() < 0.4
        self.size_style = "constant" if self.size_style == "variable" and rng.random() < 0.4 else self.size_style
        if self.size_style == "constant":
            self.names["N"] = rng.choice([self.names["N"].upper(), self.names["N"].upper(), "N"])
        size = self.names["N"] if self.size_style == "constant" else str(sketch.n)
        shape = {**dict.fromkeys("ABCDP", f"[{size}]"), **dict.fromkeys("MQ", f"[{size}][{size}]")}
        shape |= dict.fromkeys("HW", f"[{sketch.short}]")
        global_arrays = bool(sketch.functions) or rng.random() < 0.5
        setup = self.setup()
        filled = _filled(setup) | set("P")

        def declare(kind: str, letters: str, zero: str, outside: bool) -> str:
            items = []
            for role in self.having(letters):
                start = "" if outside or role in filled else zero
                items.append(self.names[role] + shape.get(role, "") + start)
            rng.shuffle(items)
            return f"{kind} {', '.join(items)};"

        private = {role for node in self.hoisted for role in _ROLE.findall(node.text)}
        outer: list[str] = []
        local: list[str] = []
        arrays = outer if global_arrays else local
        if self.having("ABCDHWMQ"):
            arrays.append(declare(self.ctype, "ABCDHWMQ", " = {0}", global_arrays))
        if self.having("P"):
            arrays.append(declare("int", "P", "", global_arrays))
        if private or self.hoisted or (sketch.functions and self.having("STUV")):
            outer.append(declare(self.ctype, "STUV", "", True))
        elif self.having("STUV"):
            local.append(declare(self.ctype, "STUV", rng.choice([" = 0", " = 1", " = 0"]), False))
        integers = [] if self.inline else self.having("IJL")
        if self.having("XYZ"):
            local.append(declare("int", "XYZ", " = 0", False))
        if integers:
            local.append(f"int {', '.join(self.names[role] for role in integers)};")
        if self.having("GO"):
            local.append(declare("omp_lock_t", "GO", "", True))
        if self.size_style == "variable" and self.having("N"):
            local.append(f"int {self.names['N']} = {sketch.n};")
        rng.shuffle(local)

        body_at = self.lines
        self.lines = []
        for node in setup + self.nodes:
            self.node(node, 1)
        shown = self.name(self.shown())
        body, self.lines = self.lines, body_at
        text = "\n".join(body) + (sketch.functions[0] if sketch.functions else "")
        self.out(0, "#include <stdio.h>")
        if "omp_" in text or rng.random() < 0.2:
            self.out(0, "#include <omp.h>")
        if self.size_style == "constant" and self.having("NABCDMQP"):
            self.out(0, f"#define {self.names['N']} {sketch.n}")
        for line in outer:
            self.out(0, line)
        for node in self.hoisted:
            self.out(0, "#pragma " + self.name(node.text))
        if sketch.functions:
            self.lines += self.name(sketch.functions[0].replace("TYPE", self.ctype)).strip("\n").split("\n")
        self.out(0, rng.choice(["int main() {", "int main(void) {"]))
        for line in local:
            self.out(1, line)
        self.lines += body
        self.out(1, f'printf("{self.format}\\n", {shown});')
        self.out(1, "return 0;")
        self.out(0, "}")
        return "\n".join(self.lines)

    def node(self, node: _Node, depth: int) -> None:
        text = node.text
        if text.startswith("f: "):
            return
        if text.startswith("c: "):
            self.out(depth, self.name(text[3:]))
        elif text.startswith("omp "):
            self.directive(node, depth)
        elif match := _FOR.match(text):
            self.out(depth, self.loop(*match.groups()) + self.opening(node))
            self.block(node, depth)
        elif text.startswith("if "):
            self.out(depth, f"if ({self.name(text[3:])})" + self.opening(node))
            self.block(node, depth)
        elif text.startswith("call "):
            self.out(depth, re.sub(r"(omp_\w+_lock\()", r"\1&", self.name(text[5:])) + ";")
        else:
            self.out(depth, self.statement(text) + ";")

    def opening(self, node: _Node) -> str:
        wrap = len(node.children) > 1 or any(child.text.startswith("omp") for child in node.children)
        return " {" if wrap else ""

    def block(self, node: _Node, depth: int) -> None:
        for child in node.children:
            self.node(child, depth + 1)
        if self.opening(node):
            self.out(depth, "}")

    def directive(self, node: _Node, depth: int) -> None:
        words, clauses = self.clauses(node.text[4:])
        self.out(depth, " ".join(["#pragma omp", words, *clauses]))
        if words in _STANDALONE:
            return
        if words.split()[-1] in ("for", "simd", "atomic") or words == "taskloop":
            for child in node.children:
                self.node(child, depth)
            return
        braces = len(node.children) > 1 or words in ("parallel", "sections", "parallel sections")
        if braces:
            self.out(depth, "{")
        for child in node.children:
            self.node(child, depth + 1)
        if braces:
            self.out(depth, "}")

    def loop(self, var: str, low: str, high: str, step: str | None) -> str:
        first = self.sum(*_bound(low))
        symbol, offset = _bound(high)
        closed = self.rng.random() < 0.15
        test = f"<= {self.sum(symbol, offset)}" if closed else f"< {self.sum(symbol, offset + 1)}"
        name = self.names[var]
        move = f"{name} += {step}" if step else self.rng.choice([f"{name}++", f"{name}++", f"++{name}"])
        return f"for ({'int ' if self.inline else ''}{name} = {first}; {name} {test}; {move})"

    def statement(self, text: str) -> str:
        match = _OPERATION.fullmatch(text)
        if match and match[3] == "1" and match[2] == "+" and self.rng.random() < 0.6:
            return self.name(match[1]) + "++"
        if match and not self.compound:
            text = "{0} = {0} {1} {2}".format(*match.groups())
        return self.name(text)


class _Fortran(_Writer):
    def inner(self, role: str) -> str:
        return f"private({role})" if self.rng.random() < 0.5 else ""

    def program(self) -> str:
        rng, sketch = self.rng, self.sketch
        indices = _INDEX.findall(re.sub(r"reduction\([^)]*\)", "", sketch.code))
        self.zero = any(sign in sketch.code for sign in ("omp_get", "]]")) or not all(
            _UNIT.fullmatch(index) for index in indices
        )
        size = self.names["N"] if self.size_style == "constant" else str(sketch.n)
        low, high = ("0:", self.sum("N", -1) if self.size_style == "constant" else str(sketch.n - 1))
        shape = dict.fromkeys("ABCDP", f"({low}{high})" if self.zero else f"({size})")
        shape |= dict.fromkeys("MQ", f"({low}{high}, {low}{high})" if self.zero else f"({size}, {size})")
        shape |= dict.fromkeys("HW", f"(0:{sketch.short - 1})" if self.zero else f"({sketch.short})")
        setup = self.setup()
        filled = _filled(setup)
        declarations = []
        integers = self.having("IJLXYZ") + (self.having("N") if self.size_style == "variable" else [])
        rng.shuffle(integers)
        if integers:
            declarations.append(f"integer :: {', '.join(self.names[role] for role in integers)}")
        saved = {role for node in self.hoisted for role in _ROLE.findall(node.text)}
        plain = [role for role in self.having("ABCDHWMQSTUV") if role not in saved]
        rng.shuffle(plain)
        if plain:
            items = ", ".join(self.names[role] + shape.get(role, "") for role in plain)
            declarations.append(f"{self.ftype} :: {items}")
        for role in sorted(saved):
            declarations.append(f"{self.ftype}, save :: {self.names[role]}")
        if self.having("P"):
            declarations.append(f"integer :: {self.names['P']}{shape['P']}")
        if self.having("GO"):
            declarations.append(f"integer(omp_lock_kind) :: {', '.join(self.names[r] for r in self.having('GO'))}")
        rng.shuffle(declarations)
        for role in self.having("ABCDHWMQSTUV"):
            if role not in filled:
                self.out(1, f"{self.names[role]} = {rng.choice('00012')}")
        rng.shuffle(self.lines)
        if self.size_style == "variable" and self.having("N"):
            self.lines.insert(0, f"  {self.names['N']} = {sketch.n}")
        for node in setup + self.nodes:
            self.node(node, 1)
        self.out(1, f"print *, {self.expression(self.shown())}")
        body, self.lines = self.lines, []
        title = rng.choice(["main", "main", "test", "demo"])
        self.out(0, f"program {title}")
        text = "\n".join(body) + (sketch.functions[1] if sketch.functions else "")
        if "omp_" in text or self.having("GO") or rng.random() < 0.2:
            self.out(1, "use omp_lib")
        self.out(1, "implicit none")
        if self.size_style == "constant" and self.having("NABCDMQP"):
            self.out(1, f"integer, parameter :: {self.names['N']} = {sketch.n}")
        for line in declarations:
            self.out(1, line)
        for node in self.hoisted:
            self.out(1, "!$" + self.name(node.text))
        self.lines += body
        if sketch.functions:
            self.out(0, "contains")
            text = self.name(sketch.functions[1].replace("TYPE", self.ftype)).strip("\n")
            self.lines += ["  " + line for line in text.split("\n")]
        self.out(0, rng.choice(["end program", f"end program {title}"]))
        return "\n".join(self.lines)

    def node(self, node: _Node, depth: int) -> None:
        text = node.text
        if text.startswith("c: "):
            return
        if text.startswith("f: "):
            self.out(depth, self.name(text[3:]))
        elif text.startswith("omp "):
            self.directive(node, depth)
        elif match := _FOR.match(text):
            var, low, high, step = match.groups()
            ends = f"{self.end(low)}, {self.end(high)}" + (f", {step}" if step else "")
            self.out(depth, f"do {self.names[var]} = {ends}")
            for child in node.children:
                self.node(child, depth + 1)
            self.out(depth, "end do")
        elif text.startswith("if "):
            condition = self.expression(text[3:])
            if len(node.children) == 1 and not node.children[0].text.startswith("omp"):
                self.out(depth, f"if ({condition}) {self.statement(node.children[0].text)}")
            else:
                self.out(depth, f"if ({condition}) then")
                for child in node.children:
                    self.node(child, depth + 1)
                self.out(depth, "end if")
        elif text.startswith("call "):
            self.out(depth, self.expression(text))
        else:
            self.out(depth, self.statement(text))

    def directive(self, node: _Node, depth: int) -> None:
        words, clauses = self.clauses(node.text[4:])
        fortran = re.sub(r"\bfor\b", "do", words)
        clauses = [re.sub(r"\[:\w*\]", "", clause) for clause in clauses]
        late = " nowait" if "nowait" in clauses else ""
        clauses = [self.expression(clause) for clause in clauses if clause != "nowait"]
        self.out(depth, " ".join(["!$omp", fortran, *clauses]))
        loop = words.split()[-1] in ("for", "simd") or words == "taskloop"
        for child in node.children:
            self.node(child, depth if loop else depth + 1)
        if words not in _STANDALONE and words not in ("atomic", "section"):
            self.out(depth, f"!$omp end {fortran}{late}")

    def end(self, text: str) -> str:
        """A loop bound: bounds that hang on another loop variable have been shifted with it already."""
        symbol, offset = _bound(text)
        shift = 0 if self.zero or symbol in ("I", "J", "L") else 1
        return self.sum(symbol, offset + shift)

    def expression(self, text: str) -> str:
        text = self.name(text)
        text = text.replace("][", ", ").replace("[", "(").replace("]", ")")
        text = re.sub(r"(\w+|\([^()]*\)) % (\w+)", lambda m: f"mod({m[1].strip('()')}, {m[2]})", text)
        return text.replace("!=", "/=").replace("&&", ".and.")

    def statement(self, text: str) -> str:
        if match := _OPERATION.fullmatch(text):
            text = "{0} = {0} {1} {2}".format(*match.groups())
        return self.expression(text)


def _filled(setup: list[_Node]) -> set[str]:
    """The arrays that the setup loop writes."""
    if not setup:
        return set()
    loop = setup[0] if setup[0].text.startswith("for") else setup[0].children[0]
    return {node.text[0] for node in loop.children}


def _bound(text: str) -> tuple[str, int]:
    match = _BOUND.fullmatch(text)
    assert match, text
    return match[1], int((match[2] or "") + (match[3] or "0"))


def write_program(sketch: Sketch, language: str, rng: random.Random, evaluation: bool) -> str:
    """The program text; `language` is "c" or "fortran"."""
    writer = _C if language == "c" else _Fortran
    return writer(sketch, rng, evaluation).program()
