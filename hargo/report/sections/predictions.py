"""Every answer, searchable in the page."""

from __future__ import annotations

from hargo.report.blocks import Block, Browser
from hargo.report.results import Results, title


def blocks(results: Results) -> list[Block]:
    """The browser of answers."""
    beside = "" if results.first_reference is None else f" beside the {title(results.first_reference)} model's"
    return [Browser(f"Every answer of every model{beside}.")]
