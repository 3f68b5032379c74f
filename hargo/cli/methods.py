"""What the methods' docstrings say, for the terminal and for docs/methods.md. Imports no method: they need torch."""

from __future__ import annotations

import ast
import json
import re
from importlib.util import find_spec
from pathlib import Path

from hargo.config import METHODS
from hargo.config.registry import TRAINERS, MethodSpec
from hargo.errors import UserError


def start(spec: MethodSpec) -> str:
    """The model that a method starts from unless a study says otherwise, in words."""
    return f"the {METHODS[spec.start].title if spec.start in METHODS else spec.start} model"


def docstring(module: str) -> str:
    """The docstring of a module that is not imported."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""


def parts(module: str) -> tuple[str, str, str]:
    """First line, the rest of the text, and the worked example of a method's docstring."""
    text, _, example = docstring(module).partition("\n>>> ")
    first, _, rest = text.partition("\n")
    return first, rest.strip("\n"), f">>> {example}".rstrip() if example else ""


def settings(spec: MethodSpec) -> str:
    """What sets a name apart from the others of its module."""
    return ", ".join(f"{key} = {value}" for key, value in spec.preset.items())


def listing() -> str:
    """One paragraph per method."""
    lines = []
    for name in METHODS.names():
        try:
            spec = METHODS[name]
        except UserError as error:  # of another package, which must not hide the rest
            lines += [name, f"    {error}"]
            continue
        first, rest, _ = parts(spec.module)
        own = settings(spec)
        lines.append(f"{name}  ({spec.title})")
        lines.append(f"    {first}" + (f" With {own}." if own else ""))
        if spec.kind == "method":
            lines += [f"    {line}" for line in formula(rest)]
        lines.append(f"    needs {TRAINERS[spec.trainer].data}; starts from {start(spec)}")
    return "\n".join(lines)


def options(name: str) -> list[tuple[str, str, str]]:
    """Every option of a method: its key, its default under this name, and what it means."""
    spec = METHODS[name]
    fields = spec.options.model_fields
    chosen = spec.options(**spec.preset).model_dump(mode="json")
    return [
        (key, json.dumps(chosen[key]), " ".join((field.description or "").split())) for key, field in fields.items()
    ]


def description(name: str) -> str:
    """One method in full: what it computes, and every option with its default."""
    spec = METHODS[name]
    first, rest, _ = parts(spec.module)
    rows = options(name)
    wide = [max(len(row[k]) for row in rows) for k in (0, 1)]
    lines = [f"{key:{wide[0]}}  {value:{wide[1]}}  {meaning}".rstrip() for key, value, meaning in rows]
    needs = f"It needs {TRAINERS[spec.trainer].data}, and starts from {start(spec)} unless a study says otherwise."
    title = f"{name}  ({spec.title})"
    return "\n".join([title, first, "", *rest.splitlines(), "", needs, "", "Options with their defaults:", *lines])


def formula(rest: str) -> list[str]:
    """The first indented block of a docstring's text."""
    block = re.search(r"(?:^    .*\n?)+", rest, re.M)
    return block[0].rstrip().splitlines() if block else []


def page() -> str:
    """docs/methods.md."""
    lines = [
        "# Methods",
        "",
        "Written by `hargo methods --markdown` from the docstrings of `hargo/methods/`. All train through one loop",
        "on one reward; names that share a module differ in the settings shown.",
        "",
        "| name | | data | starts from |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{name}` | {spec.title} | {TRAINERS[spec.trainer].data} | {start(spec)} |" for name, spec in METHODS.items()
    ]
    modules: dict[str, list[str]] = {}
    for name, spec in METHODS.items():
        modules.setdefault(spec.module, []).append(name)
    for module, names in modules.items():
        first, rest, example = parts(module)
        lines += ["", f"## {', '.join(f'`{name}`' for name in names)}", "", first, "", "```text", rest, "```"]
        own = [f"`{name}`: {settings(METHODS[name])}" for name in names if METHODS[name].preset]
        if own:
            lines += ["", "; ".join(own) + "."]
        lines += ["", "| option | default | |", "|---|---|---|"]
        lines += [f"| `{key}` | `{value}` | {meaning} |" for key, value, meaning in options(names[0])]
        if example:
            lines += ["", "```python", example, "```"]
    return "\n".join(lines)
