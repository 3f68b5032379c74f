"""The page of a small synthetic study: self-contained, the same bytes again, not to be broken by model text."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import report_tree
from hypothesis import given, settings
from hypothesis import strategies as st

from hargo.config import Study
from hargo.data.records import Row
from hargo.evaluation.predictions import Answer, Prediction
from hargo.report import tables
from hargo.report.blocks import Table
from hargo.report.build import build
from hargo.report.figures import FIGURES
from hargo.report.figures.style import draw
from hargo.report.render import html as page
from hargo.report.render import markdown
from hargo.report.results import Results
from hargo.report.sections import classes


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for key, value in attrs if key == "id" and value]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.scripts and self.tags[-1][0] == "script":
            self.scripts[-1] += data


@pytest.fixture(scope="module")
def html(out: Path) -> str:
    return (out / "report.html").read_text(encoding="utf-8")


def test_page_is_self_contained_and_runs_one_script(html: str) -> None:
    parsed = Page()
    parsed.feed(html)
    assert len(parsed.scripts) == 2  # the data and the script
    for tag, attributes in parsed.tags:
        assert not any(key.startswith("on") for key in attributes), tag
        for key in ("src", "href", "xlink:href", "action", "data"):
            assert (attributes.get(key) or "#").startswith("#"), (tag, attributes)
    assert tags(parsed, "img") == tags(parsed, "iframe") == tags(parsed, "link") == 0
    policy = next(a["content"] for t, a in parsed.tags if t == "meta" and a.get("http-equiv"))
    assert policy is not None and "default-src 'none'" in policy and "unsafe-inline'; script" in policy
    assert len(parsed.ids) == len(set(parsed.ids))
    assert "url(http" not in html and "@import" not in html


def tags(parsed: Page, name: str) -> int:
    return sum(tag == name for tag, _ in parsed.tags)


def test_model_text_arrives_whole_and_only_as_data(html: str, results: Results) -> None:
    parsed = Page()
    parsed.feed(html)
    data = json.loads(parsed.scripts[0])
    for evil in report_tree.EVIL:
        assert evil in data["texts"]
        assert evil not in html
    for run, model in zip(data["runs"], [m for ms in results.models.values() for m in ms], strict=True):
        assert [data["texts"][i] for i in run["t"]] == [p.first.output for p in model.predictions]
    hargo = data["runs"][data["first"]]
    assert hargo["name"] == "HARGO, seed 0" and data["runs"][hargo["base"]]["name"] == "SFT, seed 0"
    base = data["runs"][hargo["base"]]
    won = sum(a - b > data["tie"] for a, b in zip(hargo["r"], base["r"], strict=True))
    assert won == sum(o == "won" for o in results.models["hargo"][0].outcomes.values())


@settings(deadline=None)
@given(st.text() | st.sampled_from(report_tree.EVIL))
def test_embedded_json_cannot_end_its_element(text: str) -> None:
    embedded = page.embed([text])
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert json.loads(embedded) == [text]


def test_a_page_without_rows_holds_no_row(study: Study, tree: Path, results: Results, tmp_path: Path) -> None:
    build(study, tree, tmp_path, rows=False)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text and "predictions-data" not in text
    assert not any(row.prompt in text for row in results.eval)
    assert (tmp_path / "summary.csv").read_bytes() == (tree / "report" / "summary.csv").read_bytes()


def test_rows_that_training_has_not_seen_have_their_own_accuracy(results: Results) -> None:
    """Marking half of the race rows splits their accuracy into two that average to the whole."""
    marked = {row.id for i, row in enumerate(row for row in results.eval if row.task == "race_c") if i % 2}
    rows = [
        replace(row, meta={"held_out": "family" if row.id in marked else "names"}) if row.task == "race_c" else row
        for row in results.eval
    ]
    split = replace(results, eval=rows)
    assert tables.unseen(split, "race_c") == ["family", "names"] and tables.unseen(split, "mlperf") == []
    model = results.models["sft"][0]
    parts = [tables.accuracy_where(model, split, "race_c", kind) for kind in ("family", "names")]
    assert sum(parts) / 2 == pytest.approx(model.figures["accuracy_race_c"])
    text = " ".join(block.caption for block in classes.blocks(split) if isinstance(block, Table))
    assert "whole family" in text and not any("whole family" in str(block) for block in classes.blocks(results))


def test_audit_text_is_shown_but_not_markup(html: str, out: Path) -> None:
    assert "<script>alert(2)" not in html and "&lt;script&gt;alert(2)" in html
    assert "12 evaluation rows have a twin" in (out / "report.md").read_text(encoding="utf-8")


def test_markdown_tables_keep_their_columns() -> None:
    lines = markdown._block(Table(["a|b", "c"], [["x|y\nz", "<1"]], "note")).split("\n")
    assert lines[0] == "| a\\|b | c |" and lines[2] == "| x\\|y z | \\<1 |"


def test_figures_are_the_same_bytes_again(results: Results, out: Path, tmp_path: Path) -> None:
    drawn = draw(results, tmp_path, FIGURES)
    for path in sorted((out / "figures").iterdir()):
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name
    assert all(not re.search(r"\d{4}-\d\d-\d\dT", svg) for svg in drawn.values())


def test_a_full_sized_study_stays_below_ten_megabytes(results: Results) -> None:
    """12 methods, 5 seeds, 584 rows with prompts of 2,000 characters and answers that never repeat."""
    rng = random.Random(0)
    sizes = {"race_c": 185, "race_fortran": 157, "mlperf": 182, "plp": 60}
    rows = [Row(f"{t}/{i:05d}", t, "x" * 2000, "yes") for t, n in sizes.items() for i in range(n)]
    letters = {"race_c": 3, "race_fortran": 3, "mlperf": 60, "plp": 200}
    base = results.models["hargo"][0]

    def model(seed: int) -> Any:
        texts = ("".join(rng.choices("abcdefgh ", k=letters[row.task])) for row in rows)
        made = [
            Prediction(
                id=row.id,
                task=row.task,
                reference=row.answer,
                answers=(Answer(parsed=None, correct=True, output=text, reward=rng.random()),),
            )
            for row, text in zip(rows, texts, strict=True)
        ]
        return replace(base, seed=seed, predictions=made, outcomes={r.id: "won" for r in rows})

    names = ["sft", "grpo", "hargo", *(f"m{i}" for i in range(9))]
    big = replace(results, eval=rows, models={name: [model(s) for s in range(5)] for name in names})
    assert len(page.embed(page.predictions(big)).encode()) < 8e6


def dump(browser: str, page: Path, profile: Path) -> str:
    """The page's document after its script has run, and what the console said."""
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", f"--user-data-dir={profile}", "--virtual-time-budget=3000",
         "--enable-logging=stderr", "--v=0", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def test_page_in_a_browser(out: Path, results: Results, tmp_path: Path) -> None:
    """Opens from file://, says nothing on the console, filters by task and pair, shows a model's markup as text."""
    browser = shutil.which("chromium")
    if browser is None:
        (pytest.fail if os.environ.get("HARGO_REQUIRE_BROWSER") == "1" else pytest.skip)("no chromium on PATH")
    dom = dump(browser, out / "report.html", tmp_path / "one")
    assert "<title>Study synthetic</title>" in dom
    assert dom.count('class="answer"') == 25
    assert "80 answers, page 1 of 4" in dom

    # what a reader does with the filters, by a script of this test's own beside the page's
    act = """
    const set = (id, value) => {
      const field = document.getElementById(id);
      field.value = value;
      field.dispatchEvent(new Event("input"));
    };
    const runs = [...document.getElementById("f-run").options];
    set("f-run", runs.find((o) => o.text === "HARGO, seed 1").value);
    set("f-base", runs.find((o) => o.text === "GRPO, seed 1").value);
    set("f-task", "2");
    set("f-outcome", "lost");
    const lost = document.getElementById("b-status").textContent;
    set("f-outcome", "");
    set("f-task", "");
    set("f-text", "question 2 on");
    document.title = lost;
    """
    html = (out / "report.html").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(act.encode()).digest()).decode()
    html = html.replace("script-src 'sha256-", f"script-src 'sha256-{digest}' 'sha256-", 1)
    (tmp_path / "acted.html").write_text(html.replace("</body>", f"<script>{act}</script></body>"), encoding="utf-8")
    dom = dump(browser, tmp_path / "acted.html", tmp_path / "two")
    ours, theirs = ({p.id: p for p in results.models[m][1].predictions} for m in ("hargo", "grpo"))
    rows = [name for name in ours if name.startswith("mlperf")]
    lost = sum(theirs[name].first.earned > ours[name].first.earned for name in rows)
    assert lost and f"<title>{lost} answers, page 1 of 1</title>" in dom
    # row 2 of every task holds a prompt with </script>; it is text, and no script of it has run
    assert "4 answers, page 1 of 1" in dom and "against GRPO, seed 1" in dom
    assert dom.count("&lt;/script&gt;&lt;script&gt;document.title=") >= 4 and "owned</title>" not in dom
