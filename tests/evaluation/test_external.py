"""DataRaceBench from a folder, race detectors' figures by hand, verdicts on files."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import report_tree
import tiny
from test_metrics import race

from hargo.cli import main
from hargo.config.options import DataOptions
from hargo.data import drb
from hargo.data.grammar import first_directive
from hargo.data.records import Row, load_rows, save_rows
from hargo.data.scrub import telling_text
from hargo.errors import UserError
from hargo.evaluation import check
from hargo.evaluation.external import PARTS, score, tool_figures
from hargo.io import read_json, read_jsonl, write_json
from hargo.models.prepare import prepare
from hargo.report.blocks import Section
from hargo.report.render import markdown
from hargo.report.results import read
from hargo.report.sections import external
from hargo.training.job import Places, train

RACY = "// DRB: a data race\n#include <stdio.h>\nint main() {\n  #pragma omp parallel for\n  for (;;) race_yes++;\n}\n"
BOTH = ["race_c", "race_fortran"]


def options(folder: Path) -> DataOptions:
    return DataOptions(source="drb", path=str(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "drb" / "micro-benchmarks"
    inside.mkdir(parents=True)
    (inside / "DRB180-miss-orig-yes.c").write_text(RACY)
    (inside / "DRB001-fine-orig-no.cpp").write_text(RACY.replace("race_yes++", "x = 1"))
    (inside / "DRB002-bytes-var-no.f95").write_bytes(b"program DRB002_no\n!$omp barrier ! caf\xe9\nend program\n")
    (inside / "README.md").write_text("DRB003-not-a-kernel-yes")
    (inside / "utilities.c").write_text("int x;")
    return tmp_path / "drb"


# --- the source ---


def test_labels_come_from_names_and_reach_no_prompt(folder: Path) -> None:
    rows = drb.load(options(folder), BOTH)
    assert [(r.id, r.task, r.answer, r.meta["number"]) for r in rows] == [
        ("race_c/DRB001-fine-orig", "race_c", "no", 1),
        ("race_fortran/DRB002-bytes-var", "race_fortran", "no", 2),
        ("race_c/DRB180-miss-orig", "race_c", "yes", 180),
    ]
    for row in rows:
        code = drb.take_apart(row.prompt).code
        assert "omp" in code and not telling_text(code) and not re.search(r"DRB|race", code)
    assert [row.task for row in drb.load(options(folder), ["race_fortran"])] == ["race_fortran"]


def test_the_sample_is_read_in_its_layout(shared_data: Path) -> None:
    rows = drb.load(options(shared_data / "drb-sample"), BOTH)
    assert [sum(r.task == task for r in rows) for task in BOTH] == [12, 8]
    assert sum(r.answer == "yes" for r in rows if r.task == "race_c") == 7
    for row in rows:
        code = drb.take_apart(row.prompt).code
        assert not re.search(r"copyright|licen[cs]e|livermore|SPDX|dataracebench|race|DRB", code, re.IGNORECASE), row.id
        assert row.prompt.startswith("Given ") and row.prompt.endswith("data race problem.")


@pytest.mark.slow
def test_scrubbed_sample_compiles(shared_data: Path, tmp_path: Path) -> None:
    for row in drb.load(options(shared_data / "drb-sample"), BOTH):
        command = ["gcc", "-fsyntax-only"] if row.task == "race_c" else ["gfortran", "-fsyntax-only"]
        path = tmp_path / ("k.c" if row.task == "race_c" else "k.f95")
        path.write_text(drb.take_apart(row.prompt).code)
        done = subprocess.run([*command, "-fopenmp", str(path)], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, (row.id, done.stderr)


def test_a_folder_without_kernels_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file has a name like that of a DataRaceBench kernel"):
        drb.load(options(tmp_path), BOTH)
    with pytest.raises(UserError, match="no such folder"):
        drb.load(options(tmp_path / "absent"), BOTH)


def test_kernels_get_the_words_of_the_training_rows(folder: Path) -> None:
    train = [
        Row("race_c/0", "race_c", "Given the code snippet: int a;\nWill the code cause a data race? Say.", "no"),
        Row("mlperf/0", "mlperf", "How many?", "8"),
    ]
    frames = drb.frames_of(train)
    rows = drb.reframe(drb.load(options(folder), BOTH), frames)
    assert rows[0].prompt.endswith("}\nWill the code cause a data race? Say.") and "help me" not in rows[0].prompt
    assert rows[1].prompt.endswith("data race problem.")
    assert drb.frames_of([Row("race_c/1", "race_c", "int a;", "no")]) == {}


# --- figures ---


def test_figures_by_hand() -> None:
    """5 races of which 3 are found, 1 missed, 1 undecided; 5 without, of which 1 is flagged and 1 undecided."""
    rows = [
        *race("yes", "yes", 3), *race("yes", "no", 1), *race("yes", None, 1),
        *race("no", "no", 3), *race("no", "yes", 1), *race("no", None, 1),
    ]  # fmt: skip
    rows[4] = replace(rows[4], too_long=True)
    found = tool_figures(rows)
    assert {key: found[key] for key in ("tp", "fp", "tn", "fn", "undecided", "too_long", "n")} == {
        "tp": 3, "fp": 1, "tn": 3, "fn": 1, "undecided": 2, "too_long": 1, "n": 10,
    }  # fmt: skip
    assert found["tsr"] == pytest.approx(0.8)
    assert found["f1"] == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert found["f1_tsr"] == pytest.approx(0.6)
    assert tool_figures(race("no", None, 2))["f1"] == 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("external")
    study = tiny.study(sft={"max_steps": 2})
    data = tiny.write_data(where / "data")
    prepare(study, data, where / "base")
    train(study, "sft", 0, Places(where / "base", data, where / "sft", where / "checkpoints"))
    return where


def test_a_kernel_too_long_for_the_model_is_undecided(trained: Path, folder: Path, tmp_path: Path) -> None:
    long = RACY.replace("race_yes++", " ".join(f"x{i} = y{i * i};" for i in range(1500)))
    (folder / "micro-benchmarks" / "DRB181-long-orig-yes.c").write_text(long)
    figures = score(tiny.study(), trained / "sft" / "model", trained / "data", tmp_path / "out", folder)
    rows = {row["id"]: row for row in read_jsonl(tmp_path / "out" / "predictions.jsonl")}
    assert list(rows) == ["race_c/DRB001-fine-orig", "race_c/DRB180-miss-orig", "race_c/DRB181-long-orig"]
    assert rows["race_c/DRB181-long-orig"]["too_long"] and rows["race_c/DRB181-long-orig"]["parsed"] is None
    assert figures == read_json(tmp_path / "out" / "metrics.json")
    assert set(figures) == {"race_c", "unseen"} and figures["unseen"]["n"] == 2
    assert figures["race_c"]["too_long"] == 1 and figures["race_c"]["undecided"] >= 1
    assert 0 <= figures["race_c"]["tsr"] <= 2 / 3


def test_the_report_shows_models_beside_tools(tmp_path: Path) -> None:
    study = report_tree.study(evaluation={"external": "drb"})
    root = report_tree.write(tmp_path, study, per_task=6)
    assert external.blocks(read(study, root)) == []
    for seed, found in ((0, race("yes", "yes", 4)), (1, race("yes", "yes", 2) + race("yes", None, 2))):
        write_json(root / f"external/sft/seed{seed}/metrics.json", {PARTS[0].key: tool_figures(found)})
    text = markdown.render("x", [Section("external", "E", external.blocks(read(study, root)))])
    assert "| SFT | 3 | 0 | 0 | 0 | 1 | 0.750 ± 0.354 | 1.000 ± 0.000 | 0.750 ± 0.354 |" in text
    assert external.blocks(read(report_tree.study(), root)) == []
    assert "| Coderrect | – | – | – | – | – | – | 0.911 | – |" in text and "Lin and Liao" in text


# --- verdicts on files ---

#: what a SARIF 2.1.0 consumer needs, from the OASIS standard
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string", "pattern": "sarif.*2\\.1\\.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {"driver": {"required": ["name", "rules"], "properties": {
                            "rules": {"items": {"required": ["id", "shortDescription"]}}}}},
                    },
                    "invocations": {"items": {"required": ["executionSuccessful"]}},
                    "results": {
                        "items": {
                            "required": ["ruleId", "level", "message", "locations"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"required": ["text"]},
                                "rank": {"type": "number", "minimum": 0, "maximum": 100},
                                "locations": {"minItems": 1, "items": {"required": ["physicalLocation"], "properties": {
                                    "physicalLocation": {"required": ["artifactLocation", "region"], "properties": {
                                        "artifactLocation": {"required": ["uri"], "properties": {
                                            "uri": {"type": "string", "pattern": "^[^ \\\\]+$"}}},
                                        "region": {"properties": {
                                            "startLine": {"type": "integer", "minimum": 1}}}}}}}},
                            },
                        }
                    },
                },
            },
        },
    },
}  # fmt: skip


def run(arguments: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["hargo", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0


def test_check_prints_verdicts_and_writes_sarif(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "a folder"
    source.mkdir()
    (source / "one.c").write_text(RACY)
    (source / "serial.c").write_text("int main() { return 0; }\n")
    (source / "two.F90").write_text("!$omp parallel\nend\n")
    model = trained / "sft" / "model"
    run(["race", "check", source, "--model", model, "--threshold", 0, "--sarif", "out.sarif"], monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    p = re.fullmatch(rf"{source}/one.c: race, P\(yes\) (\d\.\d+)", lines[0])
    assert p is not None and lines[1] == f"{source}/serial.c: undecided, no OpenMP directive"
    assert lines[3] == f"model: {model} (sft seed 0)"
    found = json.loads((tmp_path / "out.sarif").read_text())
    jsonschema.validate(found, SARIF)
    (log,) = found["runs"]
    assert [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in log["results"]] == [
        "a%20folder/one.c", "a%20folder/two.F90",
    ]  # fmt: skip
    assert log["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 4}
    assert p[1] in log["results"][0]["message"]["text"]
    notes = log["invocations"][0]["toolExecutionNotifications"]
    assert [note["message"]["text"] for note in notes] == ["No verdict: no OpenMP directive."]
    run(["race", "check", source / "one.c", "--model", model, "--threshold", 1], monkeypatch)
    assert "one.c: no race, P(yes) " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "language", "line"),
    [
        ("int a;\f\n\v\n#pragma omp parallel\n{}\n", "c", 3),  # only line ends end a line
        ('char *s = "\x1c\x85\u2028";\n  # pragma omp for\n#pragma omp for\n', "c", 2),
        ("! a comment\n!$OMP parallel\n", "fortran", 2),
        ("int main() {}\n", "c", 1),
    ],
)
def test_a_finding_stands_at_the_first_directive(text: str, language: str, line: int) -> None:
    assert (first_directive(text, language) or 1) == line


def test_file_names_that_are_no_unicode_have_an_address(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.c")
    assert check._uri(path, tmp_path) == "caf%E9.c" and check._uri(path, tmp_path / "x").endswith("/caf%E9.c")


def test_the_verdict_is_that_of_evaluation(trained: Path, tmp_path: Path) -> None:
    """The same program in the words of the training rows has the same P(yes) as in evaluation."""
    study, model = tiny.study(), trained / "sft" / "model"
    code = "int main() {\n#pragma omp parallel for\n  for (int i = 0; i < 9; i++) a[i] = i;\n}"
    (tmp_path / "x.c").write_text(code)
    (found,) = check.check(model, [tmp_path / "x.c"], study=study)
    data = tmp_path / "data"
    frame = check._frames(study)["race_c"]
    save_rows(data / "eval.jsonl", [Row("race_c/0", "race_c", drb.prompt(code, "race_c", frame), "no")])
    from hargo.evaluation.choice import p_yes
    from hargo.evaluation.run import answer

    (prediction,) = answer(study, model, load_rows(data / "eval.jsonl"))
    assert found.p == pytest.approx(p_yes(prediction.choice)) and found.race == (found.p >= 0.5)


@pytest.mark.parametrize(("name", "words"), [("x.py", "not a C, C"), ("absent.c", "no such file"), (".", "no C, C")])
def test_check_names_what_it_cannot_read(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "x.py").write_text("")
    with pytest.raises(UserError, match=words):
        check.check(tmp_path, [tmp_path / name])


def test_one_bad_file_does_not_cost_the_verdicts_of_others(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "a\x1b[31m.c").write_text(RACY)
    (source / "binary.c").write_bytes(b"\x7fELF\0\xff#pragma omp parallel\n")
    (source / "broken.c").write_bytes(b"\xef\xbb\xbf// \xff\xfe\n#pragma omp parallel\n{ x = 1; }\n")
    os.symlink("nowhere", source / "dangling.c")
    with open(os.fsencode(source) + b"/name\xff.c", "w") as file:
        file.write(RACY)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    model = trained / "sft" / "model"
    run(["race", "check", "~/src", "--model", model, "--threshold", 0, "--sarif", "~/out.sarif"], monkeypatch)
    lines = capsys.readouterr().out.split("\n")
    assert r"src/a\x1b[31m.c: race, P(yes)" in lines[0]
    assert "binary.c: undecided, not a text file" in lines[1]
    assert "broken.c: race, P(yes)" in lines[2] and r"name\xff.c: race, P(yes)" in lines[3]
    found = json.loads((tmp_path / "out.sarif").read_text())
    jsonschema.validate(found, SARIF)
    places = [r["locations"][0]["physicalLocation"] for r in found["runs"][0]["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == [
        "src/a%1B%5B31m.c", "src/broken.c", "src/name%FF.c"
    ]  # fmt: skip
    assert places[1]["region"]["startLine"] == 2


def test_an_unreadable_file_is_undecided(tmp_path: Path) -> None:
    texts, reasons = check._read([tmp_path / "absent.c"])
    assert texts == [""] and reasons == {0: "cannot be read (No such file or directory)"}


def test_lines_are_counted_at_line_feeds_only() -> None:
    """Form feeds and the like end no line for editors and SARIF."""
    text = 'int a;\f\nint b;\x0b\x1c\x85\u2028\n  _Pragma("omp parallel")\n'
    assert first_directive(text, "c") == 3


def test_kernels_written_as_variants_share_a_family() -> None:
    names = {
        "DRB001-antidep1-orig": "antidep",
        "DRB002-antidep1-var": "antidep",
        "DRB166-taskdep4-orig-omp50": "taskdep",
        "DRB150-missinglock1-orig-gpu": "missinglock",
        "DRB101-task-value-orig": "task-value",
        "DRB009": "9",
    }
    assert {name: drb.family(int(name[3:6]), name) for name in names} == names
