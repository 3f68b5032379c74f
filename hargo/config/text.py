"""YAML and JSON as a study is written in them: stricter than PyYAML, which lets the last of two equal keys win."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hargo.config.problems import Location
from hargo.errors import UserError


class _KeyTwiceError(yaml.MarkedYAMLError):
    """A key that occurs twice in one mapping."""


class _Loader(yaml.SafeLoader):
    """Equal keys in one mapping are an error, `1e-5` is a number (as in YAML 1.2), and a date is a text."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        # as written: once constructed, a mapping also holds the keys of those that `<<` merges into it
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in lines:
                problem = f"the key {key.value!r} is repeated here (first on line {lines[key.tag, key.value]})"
                raise _KeyTwiceError(problem=f"{problem}; keep one of them", problem_mark=key.start_mark)
            lines[key.tag, key.value] = key.start_mark.line + 1
        return node

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        try:  # JSON writes a character beyond the first 65536 as two halves
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise yaml.constructor.ConstructorError(
                None, None, "half of a surrogate pair is not text", node.start_mark
            ) from None


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def read_mapping(path: str | Path) -> tuple[dict[str, Any], dict[Location, str]]:
    """The content of a file, and for each key its file and line. Raises UserError, with the line where there is one."""
    text = _text(path)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        value = loader.construct_document(node) if node else None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(f"{path}, line {line}: the character #x{error.character:04x} is not allowed in YAML") from None
    except yaml.MarkedYAMLError as error:
        message = ", ".join(filter(None, [error.context, error.problem]))
        where = f"{path}, line {error.problem_mark.line + 1}" if error.problem_mark else str(path)
        problem = message if isinstance(error, _KeyTwiceError) else f"not valid YAML ({message})"
        raise UserError(f"{where}: {problem}") from None
    except RecursionError:
        raise UserError(f"{path}: nested too deeply for a study") from None
    except ValueError as error:  # an explicit tag such as `!!int` on what is none
        raise UserError(f"{path}: not valid YAML ({error})") from None
    if node is None or not isinstance(value, dict):
        kind = "empty" if value is None else f"a {type(value).__name__}"
        raise UserError(
            f"{path}: a study is a mapping with the key `name` and sections such as `data` and `rl`; this is {kind}"
        )
    return value, {location: f"{path}, line {line}" for location, line in _lines(node, ())}


def _text(path: str | Path) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    # JSON may be indented with tabs, and holds none elsewhere
    return text.replace("\t", " ") if text.lstrip().startswith("{") else text


def _lines(node: yaml.Node, above: Location) -> Iterator[tuple[Location, int]]:
    """Every key below a node with the line that it is on; what `<<` merges in has none."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and len(above) < 8:  # a mapping may hold itself
                yield (*above, key.value), key.start_mark.line + 1
                yield from _lines(value, (*above, key.value))


def parse(text: str) -> Any:
    """The value of one line of YAML, such as that of `--set`. Raises yaml.YAMLError."""
    return yaml.load(text, _Loader)


def typed(value: Any) -> Any:
    """A value of Snakemake's `--config`, where everything inside a section is a text: `{"beta": "0.1"}`."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [typed(inner) for inner in value]
    if not isinstance(value, str):
        return value
    loader = _Loader("")
    try:
        return loader.construct_object(yaml.ScalarNode(loader.resolve(yaml.ScalarNode, value, (True, False)), value))
    except yaml.YAMLError:  # such as `<<`, which stands for something else only as a key
        return value
