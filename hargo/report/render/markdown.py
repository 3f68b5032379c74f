"""The report as Markdown, readable as text."""

from __future__ import annotations

import re

from hargo.report.blocks import Block, Browser, Figure, Items, Section, Table, Text, Verbatim, Warn


def render(heading: str, sections: list[Section]) -> str:
    parts = [f"# {_line(heading)}"]
    for section in sections:
        parts.append(f"## {section.title}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    match block:
        case Text(text):
            return _line(text)
        case Warn(title, items):
            return "\n".join([f"> **{_line(title)}**", ">", *(f"> - {_line(item)}" for item in items)])
        case Items(items):
            return "\n".join(f"- {_line(item)}" for item in items)
        case Table():
            lines = [_row(block.header), _row(["---", *["---:"] * (len(block.header) - 1)])]
            return "\n".join([*lines, *(_row(row) for row in block.rows)]) + f"\n\n{_line(block.caption)}"
        case Figure(name, caption, alt):
            return f"![{_line(alt)}](figures/{name}.svg)\n\n{_line(caption)}"
        case Verbatim(title, text):
            longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
            fence = "`" * (longest + 1)
            return f"{_line(title)}:\n\n{fence}text\n{text.rstrip()}\n{fence}"
        case Browser(text):
            where = "They can be searched in `report.html`; the files are `evaluate/*/seed*/predictions.jsonl`."
            return f"{_line(text)} {where}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(_line(cell).replace("|", "\\|") for cell in cells) + " |"


def _line(text: str) -> str:
    """One line without markup of its own, except `code`."""
    return re.sub(r"([<*_\[\]])", r"\\\1", " ".join(text.split())) if "`" not in text else " ".join(text.split())
