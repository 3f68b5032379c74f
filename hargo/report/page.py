"""The report as one HTML file: no network, light and dark, all model text escaped.

A content security policy allows exactly the one script below and nothing from elsewhere, so even a mistake in the
escaping would not run a model's words.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from importlib.resources import files

from hargo.evaluation.metrics import reward_of
from hargo.report import figures
from hargo.report.blocks import Block, Browser, Figure, Items, Section, Table, Text, Verbatim, Warn
from hargo.report.results import Model, Results, title

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{css}
</style>
</head>
<body>
<a class="skip" href="#short">Skip to the report</a>
<header><h1>{title}</h1></header>
<nav aria-label="Sections"><ul>
{links}
</ul></nav>
<main>
{body}
</main>
{scripts}
</body>
</html>
"""  # noqa: E501

_BROWSER = """<p>{text}</p>
<noscript><p>The table needs JavaScript. The same rows lie in evaluate/*/seed*/predictions.jsonl.</p></noscript>
<div id="b-all" hidden>
<div class="filters" role="search">
<label>Model <select id="f-run"></select></label>
<label>Task <select id="f-task"><option value="">all</option></select></label>
<label>Against <select id="f-base"><option value="">SFT of its seed</option></select></label>
<label>Outcome <select id="f-outcome"><option value="">any</option><option>won</option>
<option>tied</option><option>lost</option></select></label>
<label>Judged <select id="f-right"><option value="">any</option><option value="1">right</option>
<option value="0">wrong</option></select></label>
<label class="wide">Search prompt, reference and answers <input id="f-text" type="search" autocomplete="off"></label>
</div>
<div class="pages"><button type="button" id="b-before">Previous</button><button type="button" id="b-after">Next</button>
<span id="b-status" class="status" role="status"></span></div>
<div id="b-answers" class="answers"></div>
</div>"""


def render(heading: str, sections: list[Section], drawn: dict[str, str], results: Results) -> str:
    """The page. drawn: figure name -> SVG text."""
    assets = files("hargo.report") / "assets"
    script = (assets / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    body = []
    for section in sections:
        blocks = "\n".join(_block(block, drawn) for block in section.blocks)
        body.append(
            f'<section aria-labelledby="{section.anchor}">\n<h2 id="{section.anchor}">{escape(section.title)}</h2>'
        )
        body.append(f"{blocks}\n</section>")
    scripts = ""
    if any(isinstance(block, Browser) for section in sections for block in section.blocks):
        data = embed(predictions(results))
        scripts = f'<script type="application/json" id="predictions-data">{data}</script>\n<script>{script}</script>'
    links = "\n".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in sections)
    return _PAGE.format(
        hash=digest,
        title=escape(heading),
        css=(assets / "page.css").read_text(encoding="utf-8").rstrip(),
        links=links,
        body="\n".join(body),
        scripts=scripts,
    )


def _block(block: Block, drawn: dict[str, str]) -> str:
    match block:
        case Text(text):
            return f"<p>{_prose(text)}</p>"
        case Warn(name, items):
            return f'<div class="warn" role="note"><strong>{_prose(name)}</strong>{_list(items)}</div>'
        case Items(items):
            return _list(items)
        case Table():
            return _table(block)
        case Figure(name, caption, alt):
            picture = inline_svg(name, drawn[name], alt)
            return _figure(picture, caption)
        case Verbatim(name, text, shown):
            state = " open" if shown else ""
            return f"<details{state}><summary>{_prose(name)}</summary><pre>{escape(text)}</pre></details>"
        case Browser(text):
            return _BROWSER.format(text=_prose(text))


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _list(items: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{_prose(item)}</li>" for item in items) + "</ul>"


def _table(table: Table) -> str:
    def cell(tag: str, index: int, text: str, scope: str = "") -> str:
        style = ' class="muted"' if index in table.muted else ""
        return f"<{tag}{style}{scope}>{_prose(text)}</{tag}>"

    head = "".join(cell("th", i, text, ' scope="col"') for i, text in enumerate(table.header))
    rows = []
    for row in table.rows:
        style = ' class="strong"' if row[0] in table.strong else ""
        first = cell("th", 0, row[0], ' scope="row"')
        rows.append(f"<tr{style}>{first}{''.join(cell('td', i, t) for i, t in enumerate(row[1:], start=1))}</tr>")
    body = "".join(rows)
    return _figure(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", table.caption)


def _figure(content: str, caption: str) -> str:
    scroll = f'<div class="scroll" tabindex="0">{content}</div>'
    return f"<figure>{scroll}<figcaption>{_prose(caption)}</figcaption></figure>"


def inline_svg(name: str, svg: str, alt: str) -> str:
    """An SVG for the page: ids made unique, ink and paper following the page's colours, a name for screen readers."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    roles = {figures.INK: "ink", figures.MUTED: "muted", figures.RULE: "rule", figures.PAPER: "paper"}
    for colour, role in roles.items():
        svg = svg.replace(colour, f"var(--{role})")
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)


def predictions(results: Results) -> dict[str, object]:
    """What the table of predictions needs, compact: rows once, every distinct answer once.

    runs: per model and seed, `t` indices into `texts`, `r` rewards, `c` right or not, `sft` the index of the run of the
    SFT model of the same seed. tie: rewards closer than this are equal, whichever two runs are compared.
    """
    texts: dict[str, int] = {}
    runs: list[dict[str, object]] = []
    seeds = results.study.seeds
    for method, models in results.models.items():
        for index, model in enumerate(models):
            name = title(method) + (f", seed {model.seed}" if len(seeds) > 1 else "")
            runs.append({"name": name, "sft": index, **_run(model, texts)})
    rows = {row.id: row for row in results.eval}
    shown = [rows[p["id"]] for p in results.models["sft"][0].predictions]
    last = "hargo" if "hargo" in results.models else list(results.models)[-1]
    return {
        "tasks": results.tasks,
        "rows": [[row.id, results.tasks.index(row.task), row.prompt, row.answer] for row in shown],
        "texts": list(texts),
        "runs": runs,
        "tie": results.study.evaluation.tie,
        "first": list(results.models).index(last) * len(seeds),
    }


def _run(model: Model, texts: dict[str, int]) -> dict[str, object]:
    return {
        "t": [texts.setdefault(p["output"], len(texts)) for p in model.predictions],
        "r": [reward_of(p) for p in model.predictions],
        "c": "".join("1" if p["correct"] else "0" for p in model.predictions),
    }


def embed(value: object) -> str:
    """JSON that may stand inside a script element: no `<`, `>`, `&`, and no line separators of JavaScript's own."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
