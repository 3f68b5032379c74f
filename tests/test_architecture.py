"""Imports go one way, names in the registry lead somewhere, and light commands stay light."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

from hargo.config import METHODS, SOURCES, TASKS
from hargo.config.tables import module_of

ORDER = [
    "config",
    "layout",
    "tasks",
    "data",
    "engine",
    "models",
    "rollout",
    "methods",
    "training",
    "evaluation",
    "report",
]
ANYWHERE = {"errors", "fingerprint", "io", "machine", "provenance"}
EVERYTHING = {"cli", "doctor", "__main__"}
FILES = sorted((ROOT / "hargo").rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Parts of the package that a file imports, at the top or inside functions: `data` for `hargo.data.build`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            parts = node.module.split(".")
            if parts[0] == "hargo":
                yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}: relative import; write the full name")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "hargo" and len(parts) > 1:
                    yield parts[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    part = path.relative_to(ROOT / "hargo").parts[0].removesuffix(".py")
    if part in EVERYTHING:
        return
    allowed = set(ANYWHERE)
    if part in ORDER:
        allowed |= set(ORDER[: ORDER.index(part) + 1])
    elif part in ANYWHERE:
        allowed = {"errors", "io", "machine"}
    wrong = sorted(set(imported(path)) - allowed - {"__version__"})
    assert not wrong, f"{path.relative_to(ROOT)} imports {wrong} from its right"


def test_the_engine_knows_nothing_of_studies() -> None:
    for path in FILES:
        if path.parent.name == "engine":
            assert set(imported(path)) <= {"engine", "errors", "machine"}, path


def test_no_section_of_the_report_imports_another() -> None:
    for path in sorted((ROOT / "hargo" / "report" / "sections").glob("[!_]*.py")):
        assert "hargo.report.sections" not in path.read_text(encoding="utf-8"), path


def test_every_part_has_its_place() -> None:
    parts = {path.relative_to(ROOT / "hargo").parts[0].removesuffix(".py") for path in FILES}
    assert parts - {"__init__"} == {*ORDER, *ANYWHERE, *EVERYTHING}


NAMED = {*map(module_of, TASKS.values()), *SOURCES.values(), *(method.module for method in METHODS.values())}


@pytest.mark.parametrize("module", sorted(NAMED))
def test_registry_leads_to_modules(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


@pytest.mark.parametrize(
    "module", ["hargo.cli", "hargo.config.code", "hargo.fingerprint", "hargo.machine", "hargo.provenance", "hargo.io"]
)
def test_light_modules_import_nothing_heavy(module: str) -> None:
    heavy = {"torch", "transformers", "numpy", "sklearn", "matplotlib", "datasets"}
    code = f"import sys, {module}; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", sorted({method.module for method in METHODS.values()}))
def test_the_worked_example_of_every_method_runs(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module))
    assert done.attempted > 0 and done.failed == 0
    assert len((ROOT / f"{module.replace('.', '/')}.py").read_text().splitlines()) < 100


def test_the_page_of_methods_is_up_to_date() -> None:
    from hargo.cli.methods import listing, page

    assert (ROOT / "docs" / "methods.md").read_text() == page() + "\n", "run `make schema`"
    assert all(f"{name}  ({spec.title})" in listing() for name, spec in METHODS.items())
