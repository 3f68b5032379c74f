"""Tables of what a study can name: hargo's own, what installed packages add, and what the study itself names.

An entry says where its code is, as `module:attribute` or `module`. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from functools import cached_property
from importlib import import_module, invalidate_caches
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from hargo.config.problems import unknown
from hargo.errors import UserError

T = TypeVar("T")

#: what an entry may be called: names are keys of figures and parts of paths
NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
#: folders of study files, where modules are looked for after Python's own path
FOLDERS: list[Path] = []


class NameProblem(UserError, ValueError):
    """A name that is in no table, or whose code cannot be used; for a person as it is, and for pydantic."""


class Table(dict[str, T]):
    """Name -> entry. Those of hargo and of the study are in it, those of installed packages enter when asked for.

    kind: what a name stands for, in words; group: of the entry points of packages
    check: (name, where its code is) -> entry; UserError for what is none
    """

    def __init__(self, kind: str, group: str, check: Callable[[str, str], T], own: dict[str, T]) -> None:
        super().__init__(own)
        self.kind, self.group, self.check, self.own = kind, group, check, frozenset(own)
        self.named: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.installed

    def __missing__(self, name: str) -> T:
        """The entry of an installed package; NameProblem where none has one of this name, or its code fails."""
        points = self.installed.get(name, [])
        if not points:
            raise NameProblem(unknown(self.kind, name, self.names()))
        packages = " and ".join(sorted(_package(point) for point in points))
        if len(points) > 1:
            raise NameProblem(f"{self.kind} {name!r}: {packages} both have one of this name; uninstall one of them")
        try:
            self[name] = self._checked(name, _where(points[0]))
        except UserError as error:
            raise NameProblem(f"{self.kind} {name!r} of the installed package {packages}: {error}") from error
        return self[name]

    @cached_property
    def installed(self) -> dict[str, list[EntryPoint]]:
        """Name -> the entry points of this name; more than one where packages disagree. Hargo's own names stay its."""
        found: dict[str, list[EntryPoint]] = {}
        for point in sorted(entry_points(group=self.group), key=lambda point: point.name):
            if point.name not in self.own:
                found.setdefault(point.name, []).append(point)
        return found

    @property
    def hidden(self) -> dict[str, str]:
        """Names of hargo that an installed package claims too -> that package."""
        return {point.name: _package(point) for point in entry_points(group=self.group) if point.name in self.own}

    def names(self) -> list[str]:
        """Every name that a study may use."""
        return [*self, *(name for name in self.installed if name not in self.keys())]

    def add(self, name: str, where: str) -> None:
        """Make known what a study names; UserError for a name that is taken, and for code that cannot be used."""
        if name in self.own:
            raise UserError(f"hargo has a {self.kind} {name!r} of its own; choose another name")
        if self.named.get(name, where) != where:
            raise UserError(f"{name!r} is {self.named[name]} in another study that is read with this one")
        self[name] = self._checked(name, where)
        self.named[name] = where

    def _checked(self, name: str, where: str) -> T:
        if not NAME.fullmatch(name):
            raise UserError(
                f"{name!r} cannot name a {self.kind}; use letters, digits, '.', '_' and '-', beginning with a letter"
            )
        return self.check(name, where)


def resolve(where: str, attribute: str = "") -> Any:
    """What is at `module:attribute` or `module`, or an attribute of that; UserError where it cannot be had."""
    module, _, name = where.partition(":")
    found = _imported(module)
    for part in filter(None, (name, attribute)):
        if not hasattr(found, part):
            known = [key for key in dir(found) if not key.startswith("_")]
            raise UserError(unknown(f"name in {_shown(found, where)}", part, known))
        found = getattr(found, part)
    return found


def of_type(where: str, wanted: type[T]) -> T:
    """What is at `where`; UserError where it is no `wanted`."""
    found = resolve(where)
    if isinstance(found, wanted):
        return found
    fix = ""
    if isinstance(found, ModuleType):
        fix = f"; name the {wanted.__name__} in it: {where}:{wanted.__name__.removesuffix('Spec').upper()}"
    kind = "class" if isinstance(found, type) else type(found).__name__
    raise UserError(f"{where} is a {kind}, not a {wanted.__name__}{fix}")


def module_of(where: str) -> str:
    """The module of `module:attribute`."""
    return where.partition(":")[0]


def require_module(module: str) -> None:
    """UserError where there is no such module; it is not imported."""
    try:
        found = find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # of a package that is none; of a module without a file
        found = module in sys.modules
    if not found:
        raise UserError(_no_module(module))


def look_in(folders: Iterable[str]) -> None:
    """Look for modules in these folders too, after Python's own path."""
    for folder in map(Path, map(os.path.abspath, folders)):
        if folder not in FOLDERS:
            FOLDERS.append(folder)
            invalidate_caches()
        if str(folder) not in sys.path:
            sys.path.append(str(folder))


def _imported(module: str) -> ModuleType:
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            raise UserError(_no_module(module)) from None
        raise UserError(_broken(module, error)) from error
    except (Exception, SystemExit) as error:
        raise UserError(_broken(module, error)) from error
    top = module.partition(".")[0]
    for folder in FOLDERS:
        beside = next((path for path in (folder / f"{top}.py", folder / top / "__init__.py") if path.is_file()), None)
        file = getattr(sys.modules[top], "__file__", None)
        if beside is not None and file is not None and not Path(file).is_relative_to(folder):
            raise UserError(f"{beside} is hidden by another module {top!r}, {file}; rename it")
    return found


def _no_module(module: str) -> str:
    places = "".join(f"{os.path.relpath(folder)} or " for folder in FOLDERS)
    files = [path.stem for folder in FOLDERS for path in sorted(folder.glob("*.py"))]
    near = difflib.get_close_matches(module, files, n=1)
    return f"no module {module!r} in {places}on Python's path" + (f"; did you mean {near[0]!r}?" if near else "")


def _broken(module: str, error: BaseException) -> str:
    """What an import ran into and where: the last line of the module's own code that was reached."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    machinery = (__file__, importlib.__file__)
    reached = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in reached if frame.filename[0] != "<" and frame.filename not in machinery]
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    if not frames:
        return f"importing {module} fails: {said}"
    home = Path(frames[0].filename).parent
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(home)][-1]
    return f"{own.filename}, line {own.lineno}: importing {module} fails: {said}"


def _shown(found: Any, where: str) -> str:
    file = getattr(found, "__file__", None)
    return f"{where.partition(':')[0]} ({file})" if file and isinstance(found, ModuleType) else where


def _where(point: EntryPoint) -> str:
    return f"{point.module}:{point.attr}" if point.attr else point.module


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
