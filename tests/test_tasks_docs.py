"""docs/adding-a-task.md, followed to its end in a copy of the project, as its reader would."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

PAGE = ROOT / "docs" / "adding-a-task.md"
BIN = Path(sys.executable).parent

#: what `snakemake` runs, as commands of one process, which spares importing torch ten times
STAGES = """
import os, shlex
from hargo.cli import app
where = "results/sbatch"
for line in f'''
data build --out {where}/data
data audit --data {where}/data --out {where}/audit
model prepare --data {where}/data --out {where}/model/base
train pretrain --seed 0
train sft --seed 0
train grpo --seed 0
evaluate --model {where}/train/sft/seed0/model --data {where}/data --out {where}/evaluate/sft/seed0
evaluate --model {where}/train/grpo/seed0/model --data {where}/data --out {where}/evaluate/grpo/seed0
baselines --data {where}/data --out {where}/evaluate/baselines
report
'''.strip().splitlines():
    app([*shlex.split(line), "--config", "config/sbatch.yaml"], standalone_mode=False)
"""


def blocks(language: str) -> list[tuple[str, str]]:
    """(the paragraph before it, code) of every block of a language."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"([^\n]+(?:\n[^\n]+)*)\n\n```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(folder: Path, *command: str) -> str:
    """What a command says in the copy; it must end well."""
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "OMP_NUM_THREADS": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project after the page's files and lines; its own studies resolve to what they were before."""
    for name in ("hargo", "workflow", "profiles", "config"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", tmp_path)
    show = "from hargo.config import load_study; print(load_study('config/demo.yaml'), load_study('config/paper.yaml'))"
    before = run(tmp_path, sys.executable, "-c", show)
    registry = tmp_path / "hargo" / "config" / "registry.py"
    for told, line in blocks("text"):
        [name] = re.findall(r"in `([A-Z]+)`:", told)
        text, count = re.subn(rf"^({name}: [^\n]*{{\n)", rf"\1    {line.strip()}\n", registry.read_text(), flags=re.M)
        assert count == 1
        registry.write_text(text)
    for language in ("python", "yaml"):
        for told, code in blocks(language):
            for path in re.findall(r"Save this as `([^`]+)`", told):
                (tmp_path / path).write_text(code, encoding="utf-8")
    assert run(tmp_path, sys.executable, "-c", show) == before
    return tmp_path


def test_the_page_is_followed_to_its_report(copy: Path) -> None:
    uses = [code for told, code in blocks("python") if "Save this as" not in told]
    assert len(uses) == 1
    run(copy, sys.executable, "-c", uses[0])
    [(_, commands)] = blocks("sh")
    said = run(copy, "bash", "-ec", commands.splitlines()[0].replace("hargo ", f"{sys.executable} -m hargo "))
    assert "valid study 'sbatch': pretrain, sft, grpo; seeds [0]; tasks sbatch_option" in said
    run(copy, sys.executable, "-c", STAGES)
    out = copy / "results" / "sbatch" / "report"
    text = (out / "report.md").read_text(encoding="utf-8").replace("\\_", "_")
    # a model of this size knows nothing after ten steps, and the nearest training row something
    assert "sbatch_option accuracy: the best language model" in text and "above it" in text
    assert re.search(r"^\| GRPO \| sbatch options % \|", text, re.MULTILINE)
    with (out / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert float(rows["1-NN"]["accuracy_sbatch_option_mean"]) > 0
    assert not any("paper" in column for column in rows["grpo"]) and "54.62" not in text and "53.17" not in text


@pytest.mark.slow
def test_the_page_s_commands_run_the_workflow(copy: Path) -> None:
    [(_, commands)] = blocks("sh")
    run(copy, "bash", "-ec", commands.replace("hargo ", f"{sys.executable} -m hargo "))
    assert (copy / "results" / "sbatch" / "report" / "report.html").is_file()
    again = run(copy, "bash", "-ec", f"{commands.splitlines()[1]} --dry-run")
    assert "Nothing to be done" in again
