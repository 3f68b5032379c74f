"""Ground truth from a tool: C kernels compiled and run under ThreadSanitizer with Archer.

The tool is one-sided. A race that it reports refutes a "no"; a clean run proves nothing, since other inputs, schedules
and numbers of threads were not tried. Archer (libomp's OMPT tool) tells ThreadSanitizer of OpenMP's synchronisation;
without it most race-free programs would be flagged.
"""

from __future__ import annotations

import itertools
import random
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hargo.data import sandbox
from hargo.data.grammar import tokens
from hargo.data.programs import take_apart, unwrap
from hargo.data.records import Row
from hargo.errors import UserError
from hargo.tasks.race import label

_CPLUSPLUS = re.compile(r"#\s*include\s*<(?:iostream|vector|string|algorithm|c\w+)>|\bstd::|\busing namespace\b")
_RACE = "ThreadSanitizer: data race"
#: memory that libomp allocated for itself: tasks and their private copies, which it hands from one thread to another
_RUNTIME = re.compile(r"Location is heap block [^\n]*\n\s+#0 [^\n]*\n\s+#1 [^\n]*\(libomp\.so")
ADVICE = (
    "install clang, libomp and the sanitizer runtime of one version (Debian: clang-19 libomp-19-dev libclang-rt-19-dev)"
)
_PROBE = "#include <omp.h>\nint main(void) { int n = 0;\n#pragma omp parallel reduction(+:n)\nn++;\nreturn n < 1; }\n"


@dataclass(frozen=True)
class Toolchain:
    """A clang with the sanitizer's runtime, and the libomp of the same version with Archer."""

    clang: str
    version: str
    lib: str

    def compile(self, source: Path, program: Path) -> list[str]:
        language = ["-x", "c++", "-lstdc++"] if source.suffix == ".cpp" else []
        linker = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []  # half the time of a compilation is linking
        return [
            self.clang, "-fopenmp", "-fsanitize=thread", "-O1", "-w", f"-L{self.lib}", f"-Wl,-rpath,{self.lib}",
            *linker, *language[:2], str(source), "-x", "none", "-lm", *language[2:], "-o", str(program),
        ]  # fmt: skip

    def environment(self, threads: int) -> dict[str, str]:
        return {
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:halt_on_error=0:symbolize=0",
            "OMP_TOOL_LIBRARIES": f"{self.lib}/libarcher.so",
            "OMP_NUM_THREADS": str(threads),
            "OMP_DYNAMIC": "false",
            "LD_LIBRARY_PATH": self.lib,
        }


def races(output: str) -> int:
    """How many reports of a race are about the program's own memory.

    Archer does not see that libomp uses the memory of a finished task again, so a private copy in a new task looks like
    a race with the old one.
    """
    reports = [part for part in output.split("=" * 18) if _RACE in part]
    return sum(_RUNTIME.search(report) is None for report in reports)


@dataclass(frozen=True)
class Verdict:
    """What running a row's program showed. outcome: `race`, `clean`, `not complete`, `not compiled` or `failed`."""

    id: str
    label: str
    outcome: str
    detail: str = ""

    @property
    def refuted(self) -> bool:
        return self.outcome == "race" and self.label == "no"


@lru_cache(maxsize=1)
def toolchain() -> Toolchain:
    """The newest clang here that works with its own libomp and Archer; UserError saying what to install."""
    reason = sandbox.why_not()
    if reason:
        raise UserError(f"kernels cannot be run safely here: {reason}; run on Linux 5.13 or later with user namespaces")
    tried = []
    for name in [*(f"clang-{version}" for version in range(30, 11, -1)), "clang"]:
        clang = shutil.which(name)
        if clang is None:
            continue
        where = subprocess.run([clang, "--print-resource-dir"], capture_output=True, text=True, timeout=30).stdout
        resources = Path(where.strip())
        lib = resources.parents[1] if len(resources.parents) > 1 else resources
        if not (lib / "libarcher.so").is_file():
            tried.append(f"{name}: no libarcher.so in {lib}")
            continue
        tools = Toolchain(clang, resources.name, str(lib))
        with tempfile.TemporaryDirectory(prefix="hargo-verify-") as folder:
            outcome, detail = _try(tools, _PROBE, Path(folder), seconds=30, threads=2)
        if outcome == "clean":
            return tools
        tried.append(f"{name}: {detail or outcome}")
    raise UserError("; ".join([f"no clang with ThreadSanitizer and Archer here; {ADVICE}", *tried]))


def program_of(row: Row) -> str | None:
    """The row's C program if it is complete (has a `main`), else None."""
    if row.task != "race_c":
        return None
    code = unwrap(take_apart(row.prompt).code)
    stream = [token for token in tokens(code, "c") if token.kind not in ("space", "comment", "layout")]
    called = itertools.pairwise(stream)
    return code if any((a.text, b.text) == ("main", "(") for a, b in called) else None


def choose(rows: Sequence[Row], limit: int | None, everything: bool, seed: int = 0) -> list[Row]:
    """The C rows to run: those labelled no, or all of them; at most `limit`, drawn with the seed, order kept."""
    candidates = [row for row in rows if row.task == "race_c" and (everything or label(row.answer) == "no")]
    if limit is not None and limit < len(candidates):
        numbers = sorted(random.Random(f"verify/{seed}").sample(range(len(candidates)), limit))
        candidates = [candidates[i] for i in numbers]
    return candidates


def verify(
    rows: Sequence[Row], seconds: float = 10.0, memory_mb: int = 2000, threads: int = 4, jobs: int = 2
) -> list[Verdict]:
    """Compile and run the program of each row, `jobs` at a time, each in a sandbox and a folder of its own.

    seconds, memory_mb: limits of one program; threads: of OpenMP
    """
    tools = toolchain()

    def one(row: Row) -> Verdict:
        told = label(row.answer) or "neither"
        code = program_of(row)
        if code is None:
            return Verdict(row.id, told, "not complete")
        with tempfile.TemporaryDirectory(prefix="hargo-verify-") as folder:
            return Verdict(row.id, told, *_try(tools, code, Path(folder), seconds, threads, memory_mb))

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(one, rows))


def _try(
    tools: Toolchain, code: str, folder: Path, seconds: float, threads: int, memory_mb: int = 2000
) -> tuple[str, str]:
    """Outcome and detail of one program."""
    source = folder / ("kernel.cpp" if _CPLUSPLUS.search(code) else "kernel.c")
    source.write_text(code + "\n", encoding="utf-8")
    program = folder / "kernel"
    built = sandbox.run(tools.compile(source, program), folder, seconds=60, memory_mb=memory_mb)
    if built.code != 0 or not program.is_file():
        errors = [line for line in built.output.splitlines() if "error:" in line] or built.output.splitlines()
        return "not compiled", errors[0].partition("error:")[2].strip() or errors[0] if errors else "no message"
    done = sandbox.run([str(program)], folder, seconds, memory_mb, tools.environment(threads))
    if races(done.output):
        return "race", ""
    if done.stopped:
        return "failed", f"killed: too much {done.stopped}"
    if "ThreadSanitizer" in done.output and _RACE not in done.output and done.code != 0:
        return "failed", next(line for line in done.output.splitlines() if "ThreadSanitizer" in line)[:200]
    return ("failed", f"killed by signal {-done.code}") if done.code < 0 else ("clean", "")


def summarise(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Counts per label and outcome, the refuted labels, and the rows without an outcome with their reasons."""
    labels: dict[str, Counter[str]] = {}
    for one in verdicts:
        labels.setdefault(one.label, Counter())[one.outcome] += 1
    odd = {one.id: one.detail or one.outcome for one in verdicts if one.outcome not in ("race", "clean")}
    return {
        "tool": {"clang": toolchain().version, "runtime": "ThreadSanitizer + Archer"},
        "rows": len(verdicts),
        "labels": {name: dict(counts) for name, counts in sorted(labels.items())},
        "refuted": [one.id for one in verdicts if one.refuted],
        "without_outcome": odd,
    }


def render(found: dict[str, Any]) -> str:
    """The summary in words."""
    tool = found["tool"]
    lines = [f"{found['rows']} C programs, clang {tool['clang']} with {tool['runtime']}:"]
    for name, counts in found["labels"].items():
        lines.append(f"  labelled {name}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    refuted = found["refuted"]
    lines.append(f"labels refuted: {len(refuted)}" + (f" ({', '.join(refuted)})" if refuted else ""))
    lines.append("a race found refutes a no; a clean run proves nothing")
    return "\n".join(lines)
