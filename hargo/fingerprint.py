"""What a result was made with, as digests: of values, of files, and of the code that a stage uses. Imports no torch."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent

#: what these parts do shows in a stage's resolved options, or changes no number. `machine` is none of them: by what it
#: says of the processor the engine chooses how products are computed
NO_NUMBERS = ("cli", "config", "errors", "fingerprint", "io", "layout", "provenance")


def digest(value: Any) -> str:
    """Eight hex digits of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:8]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def code_digest(*modules: str) -> str:
    """Eight hex digits of the code that the named modules use; see `code_of`."""
    return digest(code_of(*modules))


def code_of(*modules: str) -> dict[str, str]:
    """File -> digest for the named modules and all that they import from this package, within functions too.

    modules: import paths, such as `hargo.training.job` and, since the registry finds them by name,
        `hargo.tasks.race_c`; one outside this package is followed into its own package too.
    Comments, docstrings and layout of Python files do not count, and neither do the parts in `NO_NUMBERS`. Data files
    beside a module do.
    """
    packages = {PACKAGE.name, *(name.partition(".")[0] for name in modules)}
    digests: dict[str, str] = {}
    seen: set[Path] = set()
    waiting = [path for name in modules for path in _files(name)]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        more, imports = _read(path)
        digests |= more
        waiting += [file for name in imports if name.partition(".")[0] in packages for file in _files(name)]
    return dict(sorted(digests.items()))


@cache
def _files(module: str) -> tuple[Path, ...]:
    """The file of a module and of the packages that it is in; none for a name that is no module or is left out."""
    parts = module.split(".")
    if parts[0] != PACKAGE.name:
        try:
            spec = find_spec(module)
        except ModuleNotFoundError:  # a name within a module
            return ()
        return (Path(spec.origin),) if spec and spec.origin and spec.origin.endswith(".py") else ()
    if len(parts) > 1 and parts[1] in NO_NUMBERS:
        return ()
    places = [PACKAGE.joinpath(*parts[1:n]) for n in range(2, len(parts) + 1)]
    files = [place / "__init__.py" for place in places] + [place.with_suffix(".py") for place in places[-1:]]
    return tuple(file for file in files if file.is_file())


@cache
def _read(path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Digests of a module and of the data files beside it, and the names that its imports may mean a module by."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = tuple(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _documented(node):
            node.body = node.body[1:]
    digests = {_name(path): hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:8]}
    if path.is_relative_to(PACKAGE):
        beside = [file for file in path.parent.iterdir() if file.is_file() and not file.suffix.startswith(".py")]
        digests |= {_name(file): file_digest(file)[:8] for file in beside if not file.name.startswith(".")}
    return digests, imports


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix() if path.is_relative_to(PACKAGE) else path.name


def _documented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _imported(tree: ast.Module) -> Iterator[str]:
    """For `from hargo.data import build` both `hargo.data` and `hargo.data.build`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
