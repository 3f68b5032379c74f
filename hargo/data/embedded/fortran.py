"""Kernels as complete Fortran programs.

Fortran arrays start at 1 where every index is a loop variable plus a constant: then shifting the loop bounds
by one moves all accesses by one. Otherwise they are declared from 0, so that the arithmetic stays as written.
"""

from __future__ import annotations

import re

from hargo.data.embedded.program import FOR, OPERATION, ROLE, STANDALONE, Node, Writer, bound, filled_by

INDEX = re.compile(r"\[([^\[\]]+)\]")
UNIT = re.compile(r"[IJL]( [+-] \d+)?")


class FortranWriter(Writer):
    def inner(self, role: str) -> str:
        return f"private({role})" if self.rng.random() < 0.5 else ""

    def program(self) -> str:
        rng, sketch = self.rng, self.sketch
        indices = INDEX.findall(re.sub(r"reduction\([^)]*\)", "", sketch.code))
        self.zero = any(sign in sketch.code for sign in ("omp_get", "]]")) or not all(
            UNIT.fullmatch(index) for index in indices
        )
        size = self.names["N"] if self.size_style == "constant" else str(sketch.n)
        low, high = ("0:", self.sum("N", -1) if self.size_style == "constant" else str(sketch.n - 1))
        shape = dict.fromkeys("ABCDP", f"({low}{high})" if self.zero else f"({size})")
        shape |= dict.fromkeys("MQ", f"({low}{high}, {low}{high})" if self.zero else f"({size}, {size})")
        shape |= dict.fromkeys("HW", f"(0:{sketch.short - 1})" if self.zero else f"({sketch.short})")
        setup = self.setup()
        filled = filled_by(setup)
        declarations = []
        integers = self.having("IJLXYZ") + (self.having("N") if self.size_style == "variable" else [])
        rng.shuffle(integers)
        if integers:
            declarations.append(f"integer :: {', '.join(self.names[role] for role in integers)}")
        saved = {role for node in self.hoisted for role in ROLE.findall(node.text)}
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

    def node(self, node: Node, depth: int) -> None:
        text = node.text
        if text.startswith("omp "):
            self.directive(node, depth)
        elif match := FOR.match(text):
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

    def directive(self, node: Node, depth: int) -> None:
        words, clauses = self.clauses(node.text[4:])
        fortran = re.sub(r"\bfor\b", "do", words)
        clauses = [re.sub(r"\[:\w*\]", "", clause) for clause in clauses]
        late = " nowait" if "nowait" in clauses else ""
        clauses = [self.expression(clause) for clause in clauses if clause != "nowait"]
        self.out(depth, " ".join(["!$omp", fortran, *clauses]))
        loop = words.split()[-1] in ("for", "simd") or words == "taskloop"
        for child in node.children:
            self.node(child, depth if loop else depth + 1)
        if words not in STANDALONE and words not in ("atomic", "section"):
            self.out(depth, f"!$omp end {fortran}{late}")

    def end(self, text: str) -> str:
        """A loop bound: bounds that hang on another loop variable have been shifted with it already."""
        symbol, offset = bound(text)
        shift = 0 if self.zero or symbol in ("I", "J", "L") else 1
        return self.sum(symbol, offset + shift)

    def expression(self, text: str) -> str:
        text = self.name(text)
        text = text.replace("][", ", ").replace("[", "(").replace("]", ")")
        text = re.sub(r"(\w+|\([^()]*\)) % (\w+)", lambda m: f"mod({m[1].strip('()')}, {m[2]})", text)
        return text.replace("!=", "/=").replace("&&", ".and.")

    def statement(self, text: str) -> str:
        if match := OPERATION.fullmatch(text):
            text = "{0} = {0} {1} {2}".format(*match.groups())
        return self.expression(text)
