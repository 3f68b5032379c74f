"""What a result was made with, as digests: of values, of files, and of the code that a stage uses. Imports no torch."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hargo.errors import UserError

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


def code_of(*modules: str, folders: Sequence[str] = ()) -> dict[str, str]:
    """File -> digest for the named modules and all that they import from this package, within functions too.

    modules: import paths, such as `hargo.training.job` and, since the registry finds them by name,
        `hargo.tasks.race_c`; one outside this package is followed into its own package too, and into what is in
        `folders`, where a study's own modules are.
    Comments, docstrings and layout of Python files do not count, and neither do the parts in `NO_NUMBERS`. Data files
    beside a module do. Imports nothing.
    """
    packages = {PACKAGE.name, *map(_top, modules)}
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
        own = {name for name in set(map(_top, imports)) if name in packages or _is_in(name, folders)}
        waiting += [file for name in imports if _top(name) in own for file in _files(name)]
    return dict(sorted(digests.items()))


def _top(module: str) -> str:
    return module.partition(".")[0]


def _is_in(package: str, folders: Sequence[str]) -> bool:
    return any(Path(folder, f"{package}.py").is_file() or Path(folder, package).is_dir() for folder in folders)


@cache
def _files(module: str) -> tuple[Path, ...]:
    """The file of a module and of the packages that it is in; none for a name that is no module or is left out."""
    top, *rest = module.split(".")
    files: list[Path] = []
    folders = [PACKAGE]
    if top != PACKAGE.name:
        try:
            spec = find_spec(top)
        except ValueError:  # of a module without a file
            return ()
        if spec is None:
            return ()
        files = [Path(spec.origin)] if spec.origin and spec.origin.endswith(".py") else []
        folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    elif rest and rest[0] in NO_NUMBERS:
        return ()
    for part in rest:
        places = [place for folder in folders for place in (folder / part / "__init__.py", folder / f"{part}.py")]
        files += [place for place in places if place.is_file()][:1]
        folders = [folder / part for folder in folders]
    return tuple(files)


@cache
def _read(path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Digests of a module and of the data files beside it, and the names that its imports may mean a module by."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise UserError(f"{path}, line {error.lineno}: {error.msg}") from None
    imports = tuple(_imported(tree, _name(path).split("/")[:-1]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _documented(node):
            node.body = node.body[1:]
    digests = {_name(path): hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:8]}
    if path.is_relative_to(PACKAGE):
        beside = [file for file in path.parent.iterdir() if file.is_file() and not file.suffix.startswith(".py")]
        digests |= {_name(file): file_digest(file)[:8] for file in beside if not file.name.startswith(".")}
    return digests, imports


def _name(path: Path) -> str:
    """A file as seen from where its outermost package is, such as `hargo/tasks/race_c.py`."""
    root = PACKAGE.parent if path.is_relative_to(PACKAGE) else path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return path.relative_to(root).as_posix()


def _documented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = node.body[0] if node.body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _imported(tree: ast.Module, package: list[str]) -> Iterator[str]:
    """For `from hargo.data import build` both `hargo.data` and `hargo.data.build`; `package` is that of the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)
