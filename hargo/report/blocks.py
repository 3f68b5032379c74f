"""What a report is made of, before it is Markdown or HTML. All text is plain; `code` marks names."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Warn:
    """Something that a reader must not miss."""

    title: str
    items: list[str]


@dataclass(frozen=True)
class Items:
    items: list[str]


@dataclass(frozen=True)
class Table:
    """First column text, the others figures. `muted`: columns only for comparison."""

    header: list[str]
    rows: list[list[str]]
    caption: str
    muted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Figure:
    name: str
    caption: str
    alt: str


@dataclass(frozen=True)
class Verbatim:
    """Text as it is; `shown` at once, or on request where the format can hide it."""

    title: str
    text: str
    shown: bool = True


@dataclass(frozen=True)
class Browser:
    """The table of predictions with its filters; HTML only."""

    text: str


Block = Text | Warn | Items | Table | Figure | Verbatim | Browser


@dataclass(frozen=True)
class Section:
    anchor: str
    title: str
    blocks: list[Block] = field(default_factory=list)
