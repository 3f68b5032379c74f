"""Kernels as complete C programs."""

from __future__ import annotations

import re

from hargo.data.embedded.program import FOR, OPERATION, ROLE, STANDALONE, Node, Writer, bound, filled_by


class CWriter(Writer):
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
        # clang 16 leaves a global array shared under a reduction over one of its sections: keep those local
        global_arrays = bool(sketch.functions) or ("[:" not in sketch.code and rng.random() < 0.5)
        setup = self.setup()
        filled = filled_by(setup) | set("P")

        def declare(kind: str, letters: str, zero: str, outside: bool) -> str:
            items = []
            for role in self.having(letters):
                start = "" if outside or role in filled else zero
                items.append(self.names[role] + shape.get(role, "") + start)
            rng.shuffle(items)
            return f"{kind} {', '.join(items)};"

        private = {role for node in self.hoisted for role in ROLE.findall(node.text)}
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

    def node(self, node: Node, depth: int) -> None:
        text = node.text
        if text.startswith("omp "):
            self.directive(node, depth)
        elif match := FOR.match(text):
            self.out(depth, self.loop(*match.groups()) + self.opening(node))
            self.block(node, depth)
        elif text.startswith("if "):
            self.out(depth, f"if ({self.name(text[3:])})" + self.opening(node))
            self.block(node, depth)
        elif text.startswith("call "):
            self.out(depth, re.sub(r"(omp_\w+_lock\()", r"\1&", self.name(text[5:])) + ";")
        else:
            self.out(depth, self.statement(text) + ";")

    def opening(self, node: Node) -> str:
        wrap = len(node.children) > 1 or any(child.text.startswith("omp") for child in node.children)
        return " {" if wrap else ""

    def block(self, node: Node, depth: int) -> None:
        for child in node.children:
            self.node(child, depth + 1)
        if self.opening(node):
            self.out(depth, "}")

    def directive(self, node: Node, depth: int) -> None:
        words, clauses = self.clauses(node.text[4:])
        self.out(depth, " ".join(["#pragma omp", words, *clauses]))
        if words in STANDALONE:
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
        first = self.sum(*bound(low))
        symbol, offset = bound(high)
        closed = self.rng.random() < 0.15
        test = f"<= {self.sum(symbol, offset)}" if closed else f"< {self.sum(symbol, offset + 1)}"
        name = self.names[var]
        move = f"{name} += {step}" if step else self.rng.choice([f"{name}++", f"{name}++", f"++{name}"])
        return f"for ({'int ' if self.inline else ''}{name} = {first}; {name} {test}; {move})"

    def statement(self, text: str) -> str:
        match = OPERATION.fullmatch(text)
        if match and match[3] == "1" and match[2] == "+" and self.rng.random() < 0.6:
            return self.name(match[1]) + "++"
        if match and not self.compound:
            text = "{0} = {0} {1} {2}".format(*match.groups())
        return self.name(text)
