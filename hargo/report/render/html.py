"""The report as one HTML file: no network, light and dark, all model text escaped.

A content security policy allows exactly the one script below and nothing from elsewhere, so even a mistake in the
escaping would not execute a model's output.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hargo.evaluation.headline import earned
from hargo.report.blocks import Browser, Section
from hargo.report.figures import style
from hargo.report.render import assets
from hargo.report.results import Model, Results, title


def render(heading: str, sections: list[Section], drawn: dict[str, str], results: Results) -> str:
    """The page. drawn: figure name -> SVG text."""
    script = (files(assets) / "page.js").read_text(encoding="utf-8")
    browsed = any(isinstance(block, Browser) for section in sections for block in section.blocks)
    environment = Environment(
        loader=PackageLoader("hargo.report.render", "assets"), autoescape=True, undefined=StrictUndefined
    )
    filters: dict[str, Callable[[Any], str]] = {
        "prose": prose,
        "kind": lambda block: type(block).__name__,
        "picture": lambda figure: Markup(inline_svg(figure.name, drawn[figure.name], figure.alt)),
    }
    environment.filters |= filters
    return environment.get_template("page.html.j2").render(
        heading=heading,
        sections=sections,
        subject=title(results.subject) if results.subject else None,
        reference=title(results.first_reference) if results.first_reference else None,
        style=Markup((files(assets) / "page.css").read_text(encoding="utf-8").rstrip()),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=Markup(embed(predictions(results))) if browsed else "",
    )


def prose(text: str) -> Markup:
    """Text with its `code` marked up, everything else escaped."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def inline_svg(name: str, svg: str, alt: str) -> str:
    """An SVG for the page: ids made unique, ink and paper following the page's colours, a name for screen readers."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    roles = {style.INK: "ink", style.MUTED: "muted", style.RULE: "rule", style.PAPER: "paper"}
    for colour, role in roles.items():
        svg = svg.replace(colour, f"var(--{role})")
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)


def predictions(results: Results) -> dict[str, object]:
    """What the table of predictions needs, compact: rows once, every distinct answer once.

    runs: per model and seed, `t` indices into `texts`, `r` rewards, `c` right or not, `base` the index of the run that
    it is compared with: the first reference's of the same seed, or itself where there is none. tie: rewards closer than
    this are equal, whichever two runs are compared.
    """
    texts: dict[str, int] = {}
    runs: list[dict[str, object]] = []
    seeds = results.study.seeds
    for method, models in results.models.items():
        for index, model in enumerate(models):
            name = title(method) + (f", seed {model.seed}" if len(seeds) > 1 else "")
            base = index if results.first_reference is not None else len(runs)
            runs.append({"name": name, "base": base, **_run(model, texts)})
    rows = {row.id: row for row in results.eval}
    shown = [rows[p.id] for p in next(iter(results.models.values()))[0].predictions]
    chosen = results.subject or list(results.models)[-1]
    return {
        "tasks": results.tasks,
        "rows": [[row.id, results.tasks.index(row.task), row.prompt, row.answer] for row in shown],
        "texts": list(texts),
        "runs": runs,
        "tie": results.study.evaluation.tie,
        "first": list(results.models).index(chosen) * len(seeds),
    }


def _run(model: Model, texts: dict[str, int]) -> dict[str, object]:
    return {
        "t": [texts.setdefault(p.first.output, len(texts)) for p in model.predictions],
        "r": [earned(p) for p in model.predictions],
        "c": "".join("1" if p.first.correct else "0" for p in model.predictions),
    }


def embed(value: object) -> str:
    """JSON that may stand inside a script element: no `<`, `>`, `&`, and no line separators of JavaScript's own."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
