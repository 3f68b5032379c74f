"""The workflow: what runs, what reruns after a change, and that Snakemake's own tools like it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from calls import BIN, DEMO, SNAKEFILE, jobs, snakemake, taken_for_finished
from places import ROOT

from hargo.config import METHODS
from hargo.evaluation.baselines import FILES


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a demo study that Snakemake takes for finished."""
    folder = tmp_path_factory.mktemp("finished")
    taken_for_finished(folder, DEMO)
    return folder


def test_every_file_of_the_baselines_is_declared(finished: Path) -> None:
    folder = finished / "results" / "demo" / "evaluate" / "baselines"
    assert {path.name for path in folder.iterdir()} == {"metrics.json", *FILES.values()}


def test_a_fresh_demo_runs_every_stage_once_per_method_and_seed(tmp_path: Path) -> None:
    expected = {"data": 1, "audit": 1, "base_model": 1, "train": 1 + 2 + 8}
    expected |= {"evaluate": 10, "baselines": 1, "report": 1}
    assert jobs(tmp_path) == expected
    assert jobs(tmp_path, study=None) == expected, "the demo is the default study"


def test_the_paper_study_is_planned_quickly(tmp_path: Path) -> None:
    start = time.perf_counter()
    planned = jobs(tmp_path, study=ROOT / "config" / "paper.yaml")
    assert time.perf_counter() - start < 10
    assert planned["train"] == planned["evaluate"] == 65 and planned["preferences"] == 5
    assert planned["prefetch_data"] == planned["prefetch_model"] == 1


def test_a_sweep_and_all_methods_are_planned(tmp_path: Path) -> None:
    assert jobs(tmp_path, study=ROOT / "config" / "sweep.yaml")["train"] == 1 + 2 * (1 + 2 + 9)
    planned = jobs(tmp_path, study=ROOT / "config" / "demo-full.yaml")
    assert planned["train"] == 2 * len(METHODS) - 1 and planned["preferences"] == 2


def planned_in(folder: Path, study: dict[str, Any]) -> dict[str, set[str]]:
    """Run -> the inputs of its jobs in a dry-run of this study."""
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study))
    done = snakemake(folder, "--dry-run", "--configfile", path)
    assert done.code == 0, done.text
    found = re.findall(
        r"Training (\S+), seed (\d+)\nReason: Missing output files: .*?; Input files updated by another job: (.*)",
        done.text,
    )
    return {f"{name} {seed}": set(inputs.split(", ")) for name, seed, inputs in found}


BRANCHES: dict[str, Any] = {
    "name": "branches",
    "seeds": [0, 1],
    "pretrain": {},
    "data": {"protocol": "given"},
    "methods": {
        "early": {"method": "grpo", "start": "pretrain@50000"},
        "early_sft": {"method": "sft", "start": "pretrain@50000"},
        "hargo": {"start": "early_sft"},
        "dpo": {"start": "hargo"},
        "grpo": None,
    },
}


def test_runs_start_where_the_study_says(tmp_path: Path) -> None:
    inputs, results = planned_in(tmp_path, BRANCHES), "results/branches"
    assert len(inputs) == 1 + 2 * 6
    assert f"{results}/model/base" in inputs["pretrain 0"]
    for seed in (0, 1):
        at = f"seed{seed}"
        assert f"{results}/train/pretrain/seed0/model" in inputs[f"sft {seed}"]
        assert f"{results}/train/pretrain/seed0/kept" in inputs[f"early {seed}"]
        assert f"{results}/train/early_sft/{at}/model" in inputs[f"hargo {seed}"]
        assert {f"{results}/train/hargo/{at}/model", f"{results}/preferences/hargo/{at}/pairs.jsonl"} <= inputs[
            f"dpo {seed}"
        ]
        assert f"{results}/train/sft/{at}/model" in inputs[f"grpo {seed}"]


def test_without_sft_methods_start_from_the_base_model(tmp_path: Path) -> None:
    inputs = planned_in(tmp_path, {**BRANCHES, "sft": False, "methods": {"dapo": None, "dpo": None}})
    assert set(inputs) == {"pretrain 0", "dapo 0", "dapo 1", "dpo 0", "dpo 1"}
    assert "results/branches/train/pretrain/seed0/model" in inputs["dapo 1"]
    assert "results/branches/preferences/pretrain/seed1/pairs.jsonl" in inputs["dpo 1"]


def test_a_finished_study_has_nothing_to_do(finished: Path) -> None:
    assert jobs(finished) == {}


@pytest.mark.parametrize(
    ("change", "redone"),
    [
        ("methods={hargo: {alpha: 0.5}}", {"train": 2, "evaluate": 2, "report": 1}),
        ("rl={beta: 0.1}", {"train": 8, "evaluate": 8, "report": 1}),
        ("sft={epochs: 3}", {"train": 2 + 8, "evaluate": 10, "report": 1}),
        ("evaluation={batch_size: 8}", {"evaluate": 10, "report": 1}),
        ("evaluation={tie: 0.01}", {"report": 1}),
        ("seeds=[0]", {"report": 1}),
        ("seeds=[0, 1, 2]", {"train": 5, "evaluate": 5, "report": 1}),
        ("methods={dr_grpo: {}}", {"train": 2, "evaluate": 2, "report": 1}),
        ("rl={checkpoint_every: 7}", {}),
        ("sft={checkpoint_every: 7}", {}),
        ("prefetch={cache: elsewhere}", {}),
    ],
)
def test_a_change_redoes_what_depends_on_it(finished: Path, change: str, redone: dict[str, int]) -> None:
    assert jobs(finished, "--config", change) == redone


AFTER_TRAINING = {"evaluate": 10, "report": 1}


@pytest.mark.parametrize(
    ("file", "redone"),
    [
        ("methods/hargo.py", {"train": 6, "evaluate": 6, "report": 1}),  # hargo, b1 and b2
        ("methods/dapo.py", {}),
        ("methods/sft.py", {"train": 11} | AFTER_TRAINING),
        ("training/loop.py", {"train": 11} | AFTER_TRAINING),
        ("evaluation/baselines.py", {"baselines": 1, "report": 1}),
        ("report/tables.py", {"report": 1}),
        ("cli/__init__.py", {}),
        ("doctor.py", {}),
    ],
)
def test_changed_code_redoes_what_it_has_made(
    finished: Path, tmp_path: Path, file: str, redone: dict[str, int]
) -> None:
    package = tmp_path / "hargo"
    shutil.copytree(ROOT / "hargo", package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (package / file, package / "training" / "loop.py"):
        path.write_text(path.read_text() + "\n# a comment changes nothing\n")
    assert jobs(finished, package=package) == {}
    (package / file).write_text((package / file).read_text() + "\nADDED = 1\n")
    assert jobs(finished, package=package) == redone


def test_changed_data_code_redoes_everything_and_says_why(finished: Path, tmp_path: Path) -> None:
    package = tmp_path / "hargo"
    shutil.copytree(ROOT / "hargo", package, ignore=shutil.ignore_patterns("__pycache__"))
    path = package / "data" / "embedded" / "sync.py"
    path.write_text(path.read_text() + "\nADDED = 1\n")
    done = snakemake(finished, "--dry-run", "--configfile", DEMO, package=package)
    told = re.search(r"Building the rows.*\nReason: Params have changed (.*)", done.text)
    assert told and re.search(r"before: \{'hargo/data': '\w{8}'\} now: \{'hargo/data': '\w{8}'\}", told[1]), done.text
    assert jobs(finished, package=package) == jobs(finished, "--forceall")


def test_an_external_test_set_asks_every_model_and_trains_nothing(finished: Path, tmp_path: Path) -> None:
    named = f"evaluation={{external: {tmp_path}}}"
    done = snakemake(finished, "--dry-run", "--configfile", DEMO, "--config", named)
    assert done.code != 0 and f"{tmp_path}: contains no kernels of DataRaceBench" in done.text
    (tmp_path / "DRB001-a-orig-yes.c").touch()
    assert jobs(finished, "--config", named) == {"external": 10, "report": 1}


def test_labels_are_verified_only_when_asked(finished: Path) -> None:
    assert jobs(finished, "verify", study=None) == {"verify": 1}


def test_changed_data_redoes_everything(finished: Path) -> None:
    changed = jobs(finished, "--config", "data={embedded: {seed: 4}}")
    assert changed == jobs(finished, "--forceall")


def test_forcing_a_rule_redoes_it_and_the_report(finished: Path) -> None:
    assert jobs(finished, "--forcerun", "evaluate") == {"evaluate": 10, "report": 1}


def test_checkpoints_are_nobodys_output(finished: Path) -> None:
    """Snakemake deletes the outputs of a job before it reruns; what the job resumes from must survive that."""
    summary = snakemake(finished, "--configfile", DEMO, "--summary").text
    assert "train/hargo/seed0/model" in summary and "checkpoints" not in summary


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (["rl={temprature: 1}"], "unknown key in rl 'temprature'; did you mean 'temperature'?"),
        (["methods={harg: {}}"], "unknown method 'harg'; did you mean 'hargo'?"),
        (["seeds=[true, false]"], "seeds.0: Input should be a valid integer (given True)"),
        (["rl={beta: [0.1]}"], "rl.beta: Input should be a valid number (given [0.1])"),
        (["model={path: a/b}"], "set `source` to one of hub, folder, gguf, package, or delete the key"),
        (["data={embedded: {families: [totl]}}"], "unknown kernel family 'totl'; did you mean 'total'?"),
    ],
)
def test_a_wrong_study_is_one_message(tmp_path: Path, config: list[str], words: str) -> None:
    done = snakemake(tmp_path, "--dry-run", "--configfile", DEMO, "--config", *config)
    assert done.code != 0 and "Traceback" not in done.text
    assert any(line.strip().endswith(words) for line in done.text.splitlines()), done.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rl: {beta: 0.1}\nrl: {epochs: 2}\n", "line 4: the key 'rl' is repeated here (first on line 3)"),
        ("rl:\n  beta: 0.1\n  beta: 0.2\n", "line 5: the key 'beta' is repeated here (first on line 4)"),
        ("rl:\n  temprature: 1\n", "line 4: unknown key in rl 'temprature'; did you mean 'temperature'?"),
    ],
)
def test_a_faulty_study_file_is_one_message_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(f"name: x\npretrain: {{}}\n{text}")
    done = snakemake(tmp_path, "--dry-run", "--configfile", study)
    assert done.code != 0 and f"{study}, {words}" in done.text and "Traceback" not in done.text, done.text


def test_values_on_the_command_line_are_read_as_in_a_file(finished: Path, tmp_path: Path) -> None:
    same = ["seeds=[0, 1]", "rl={learning_rate: 2e-4, schedule: linear}", "compute={device: cpu}", "model={path: null}"]
    assert jobs(finished, "--config", *same) == {}
    more = tmp_path / "more.yaml"
    more.write_text("rl: {beta: 1e-1}\n")
    changed = jobs(finished, "--configfile", DEMO, more, study=None)
    assert changed == {"train": 8, "evaluate": 8, "report": 1}


def test_missing_data_files_are_one_message(tmp_path: Path) -> None:
    done = snakemake(tmp_path, "--dry-run", "--configfile", ROOT / "config" / "hpcgpt-smol.yaml")
    assert done.code != 0 and "no JSON files in data/hpcgpt" in done.text and "Traceback" not in done.text


def test_an_edited_data_file_redoes_the_data(tmp_path: Path) -> None:
    rows, output = tmp_path / "rows" / "task1_plp.json", "results/hpcgpt-smol/data/train.jsonl"
    rows.parent.mkdir()
    rows.write_text("[1]")
    for name in ("train.jsonl", "eval.jsonl", "manifest.json"):
        path = (tmp_path / output).with_name(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    study = [ROOT / "config" / "hpcgpt-smol.yaml", "--config", f"data={{path: {rows.parent}}}"]
    assert snakemake(tmp_path, output, "--touch", "--forceall", "--configfile", *study).code == 0
    assert "Nothing to be done" in snakemake(tmp_path, output, "--dry-run", "--configfile", *study).text
    rows.write_text("[2]")
    for moment in (5, -5000):  # an older file may be put there, too
        os.utime(rows, (time.time() + moment, time.time() + moment))
        told = snakemake(tmp_path, output, "--dry-run", "--configfile", *study).text
        assert re.search(r"^data +1$", told, re.MULTILINE)


def test_an_edited_model_folder_redoes_the_base_model(tmp_path: Path) -> None:
    study, model, output = tmp_path / "study.yaml", tmp_path / "model", "results/x/model/base"
    study.write_text(f"name: x\nmodel: {{source: folder, path: {model}}}\n")
    told = snakemake(tmp_path, output, "--dry-run", "--configfile", study).text
    assert f"model.path: no model at {model}" in told and "Traceback" not in told
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "README.md").write_text("1")
    (tmp_path / output).mkdir(parents=True)
    for name in ("train.jsonl", "eval.jsonl", "manifest.json"):
        path = tmp_path / "results" / "x" / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert snakemake(tmp_path, output, "--touch", "--forceall", "--configfile", study).code == 0
    (model / "README.md").write_text("2")
    assert "Nothing to be done" in snakemake(tmp_path, output, "--dry-run", "--configfile", study).text
    (model / "config.json").write_text("{ }")
    told = snakemake(tmp_path, output, "--dry-run", "--configfile", study).text
    assert re.search(r"^base_model +1$", told, re.MULTILINE) and "1 files" in told


@pytest.mark.parametrize("graph", ["--dag", "--rulegraph"])
def test_graphs_are_drawn(tmp_path: Path, graph: str) -> None:
    done = snakemake(tmp_path, "--configfile", DEMO, graph)
    assert done.code == 0 and "digraph" in done.text and "base_model" in done.text


def test_snakemake_lint_has_no_complaint(tmp_path: Path) -> None:
    done = snakemake(tmp_path, "--lint")
    assert done.code == 0, done.text


def test_workflow_files_are_formatted() -> None:
    environment = {**os.environ, "PATH": f"{BIN}:/usr/bin:/bin"}
    command = [str(BIN / "snakefmt"), "--check", str(ROOT / "workflow")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, "run `make format`\n" + done.stderr


def test_every_rule_is_complete_and_files_are_small() -> None:
    assert len(SNAKEFILE.read_text().splitlines()) < 40
    for path in (ROOT / "workflow" / "rules").glob("*.smk"):
        text = path.read_text()
        assert len(text.encode()) < 4096, path
        for rule in re.split(r"^ *rule ", text, flags=re.MULTILINE)[1:]:
            for directive in ("output", "log", "benchmark", "threads", "resources", "params", "message"):
                assert re.search(rf"^ +{directive}:", rule, re.MULTILINE), f"{path.name}: {rule.split(':')[0]}"


def test_captions_exist() -> None:
    rules = (ROOT / "workflow" / "rules" / "report.smk").read_text()
    for caption in re.findall(r'caption="\.\./(report/\w+\.rst)"', rules):
        assert (ROOT / "workflow" / caption).read_text().strip()


def test_conda_environment_has_the_packages_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    environment = yaml.safe_load((ROOT / "workflow" / "envs" / "hargo.yaml").read_text())
    assert environment["dependencies"][-1]["pip"] == project["dependencies"]


MINI = {
    "name": "mini",
    "tasks": ["race_c", "plp"],
    "data": {"protocol": "given", "embedded": {"kernels": 24, "eval_kernels": 8, "plp": 24, "eval_plp": 8}},
    "model": {"scratch": {"vocabulary": 400, "hidden": 32, "layers": 2, "heads": 2, "intermediate": 64}},
    "pretrain": {"steps": 2},
    "sft": {"max_steps": 2},
    "rl": {"max_steps": 1, "prompts_per_step": 2, "max_new_tokens": {"plp": 4}},
    "methods": {"grpo": None, "hargo": None},
    "evaluation": {"max_new_tokens": {"plp": 4}},
    "compute": {"threads": 1, "device": "cpu"},
}


@pytest.mark.slow
def test_a_small_study_runs_to_its_report_and_only_once(tmp_path: Path) -> None:
    study = tmp_path / "mini.yaml"
    study.write_text(yaml.safe_dump(MINI))
    done = snakemake(tmp_path, "--configfile", study, "--show-failed-logs")
    assert done.code == 0, done.text
    results = tmp_path / "results" / "mini"
    assert yaml.safe_load((results / "study.yaml").read_text())["rl"]["max_steps"] == 1
    for name in ("report.html", "report.md", "summary.csv", "per_task.csv"):
        assert (results / "report" / name).stat().st_size > 0
    assert jobs(tmp_path, study=study) == {}
    (results / "study.yaml").unlink()
    assert jobs(tmp_path, study=study) == {}, "jobs depend on sections of the study, not on the resolved file"
    assert snakemake(tmp_path, "--configfile", study, "--report", tmp_path / "report.html").code == 0
    assert "HARGO" in (tmp_path / "report.html").read_text()
