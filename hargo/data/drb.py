"""DataRaceBench (LLNL) from a folder, and any other folder of C, C++ and Fortran programs.

The label of a DataRaceBench kernel is the `-yes` or `-no` at the end of its file name. Licence, comments, telling names
and strings are taken out (`hargo.data.scrub`), and file names never reach a prompt.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hargo.config.options import DataOptions
from hargo.data.programs import LANGUAGES, Framed, take_apart
from hargo.data.records import Row
from hargo.data.scrub import scrub_code
from hargo.errors import UserError

_FIXED = (".f", ".for", ".ftn", ".f77", ".fpp")
#: suffix, in lower case -> task
SUFFIXES = {
    **dict.fromkeys((".c", ".cc", ".cpp", ".cxx", ".c++"), "race_c"),
    **dict.fromkeys((*_FIXED, ".f90", ".f95", ".f03", ".f08", ".f18"), "race_fortran"),
}

#: the tasks that there are rows for
TASKS = tuple(dict.fromkeys(SUFFIXES.values()))

_NAME = re.compile(r"(DRB(\d+).*)-(yes|no)", re.IGNORECASE)

#: the words around a program in HPC-GPT, for models that were trained on it
FRAMES = {
    task: Framed(
        f"Given {article} snippet: ",
        "",
        f", help me detect if adding {thing} will cause a data race problem? Answer 'yes' if it causes a data race "
        "problem and 'no' if it will not cause a data race problem.",
    )
    for task, article, thing in (
        ("race_c", "the code", "pragma"),
        ("race_fortran", "a Fortran code", "OpenMP directive"),
    )
}


def load(options: DataOptions, tasks: list[str]) -> list[Row]:
    """Kernels below the folder `options.path`, in the order of their names; all are for evaluation.

    `meta` holds `number` (of the kernel), `source_file` and `split`. UserError where the folder has no kernel.
    """
    folder = Path(options.path or "").expanduser()
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; set it to a copy of DataRaceBench (with micro-benchmarks/)")
    rows = []
    for path in sorted(folder.rglob("*"), key=lambda path: (path.name, str(path))):
        task, named = SUFFIXES.get(path.suffix.lower()), _NAME.fullmatch(path.stem)
        if task not in tasks or named is None or not path.is_file():
            continue
        number = int(named[2])
        meta = {
            "split": "eval",
            "number": number,
            "family": family(number, named[1]),
            "source_file": printable(path.relative_to(folder)),
        }
        text = prompt(read(path), str(task), language=language(path))
        rows.append(Row(f"{task}/{printable(named[1])}", str(task), text, named[3].lower(), meta))
    if not rows:
        raise UserError(
            f"{folder}: no file has a name like that of a DataRaceBench kernel, e.g. DRB001-antidep1-orig-yes.c"
        )
    return rows


def family(number: int, name: str) -> str:
    """What kernels written as variants of one another have in common: the name without number, version and rank.

    `DRB001-antidep1-orig` and `DRB002-antidep1-var` are both `antidep`; a kernel without a name is its number.
    """
    stem = re.sub(r"^DRB\d+[-_]?", "", name, flags=re.IGNORECASE).lower()
    stem = re.sub(r"[-_](?:orig|var|gpu|omp\d+)(?=[-_]|$)", "", stem)
    return re.sub(r"[-_]?\d*$", "", stem) or str(number)


def language(path: Path) -> str:
    """`c`, `fixed` or `free`, by the file's name."""
    suffix = path.suffix.lower()
    return "c" if SUFFIXES[suffix] == "race_c" else "fixed" if suffix in _FIXED else "free"


def printable(path: Path | str) -> str:
    """A file's name as a line of text: control characters, which a terminal obeys, and bytes that are not UTF-8 are
    written `\\x1b`."""
    text = os.fsencode(path).decode("utf-8", errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def read(path: Path) -> str:
    """The program's text without a byte order mark; bytes that are not UTF-8 are replaced."""
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise UserError(f"{printable(path)}: cannot be read ({error.strerror})") from None


def prompt(code: str, task: str, frame: Framed | None = None, language: str | None = None) -> str:
    """The scrubbed program between the words of `frame`, by default HPC-GPT's.

    language: `c`, `free` or `fixed`; by default the task's, with the form told by the code
    """
    before, _, after = frame or FRAMES[task]
    clean = scrub_code(code.lstrip("\n"), language or LANGUAGES[task])
    clean = clean.strip("\n").rstrip() if language == "fixed" else clean.strip()
    return f"{before}\n{clean}\n{after}"


def frames_of(rows: Iterable[Row]) -> dict[str, Framed]:
    """Task -> the most frequent words around a program in these rows: the words that a model was trained with."""
    counts: dict[str, Counter[tuple[str, str]]] = {}
    for row in rows:
        if row.task in LANGUAGES:
            before, _, after = take_apart(row.prompt)
            counts.setdefault(row.task, Counter())[before, after] += 1
    frequent = {task: seen.most_common(1)[0][0] for task, seen in counts.items()}
    return {task: Framed(before, "", after.lstrip("\n")) for task, (before, after) in frequent.items() if before}


def reframe(rows: Sequence[Row], frames: dict[str, Framed]) -> list[Row]:
    """The rows with their programs between other words, where `frames` has some for their task."""
    reframed = []
    for row in rows:
        frame = frames.get(row.task)
        if frame is not None:
            row = replace(row, prompt=f"{frame.before}{take_apart(row.prompt).code.rstrip()}\n{frame.after}")
        reframed.append(row)
    return reframed


def programs(paths: Sequence[Path]) -> list[tuple[Path, str]]:
    """(file, task) of the programs among files and, recursively, in folders, each once.

    UserError for a path that is not there and for a named file that is no C, C++ or Fortran.
    """
    found: dict[Path, str] = {}
    for path in (given.expanduser() for given in paths):
        if path.is_dir():
            inside = sorted(item for item in path.rglob("*") if item.suffix.lower() in SUFFIXES and item.is_file())
            found |= {item: SUFFIXES[item.suffix.lower()] for item in inside}
        elif not path.is_file():
            raise UserError(f"{printable(path)}: no such file or folder")
        elif path.suffix.lower() not in SUFFIXES:
            raise UserError(f"{printable(path)}: not a C, C++ or Fortran file by its name ({', '.join(SUFFIXES)})")
        else:
            found[path] = SUFFIXES[path.suffix.lower()]
    if not found:
        raise UserError(f"{', '.join(map(str, paths))}: no C, C++ or Fortran files there")
    return list(found.items())
