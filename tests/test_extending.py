"""The pages of docs/extending are followed to their end, as written, in a copy of the project."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import outside
import pytest
from places import ROOT

PAGES = sorted((ROOT / "docs" / "extending").glob("*.md"))
BIN = Path(sys.executable).parent

#: what `snakemake` runs for the study of argv, as commands of one process, which spares importing torch ten times
WORKFLOW = """
import shlex, sys
from hargo.cli import app
from hargo.config import load_study
from hargo.layout import StudyFolder
study = load_study(sys.argv[1])
at, runs = StudyFolder.of(study), study.runs()
lines = [f"data build --out {at.data}", f"data audit --data {at.data} --out {at.audit}"]
lines += [f"model prepare --data {at.data} --out {at.base}"]
lines += [f"train {run.name} --seed {seed}" for run in runs.values() for seed in run.seeds]
lines += [
    f"evaluate --model {at.model(name, seed)} --data {at.data} --out {at.evaluation(name, seed)}"
    for name in study.reported for seed in study.seeds
]
for line in [*lines, f"baselines --data {at.data} --out {at.baselines}", "report"]:
    app([*shlex.split(line), "--config", sys.argv[1]], standalone_mode=False)
"""


class Block(NamedTuple):
    """A block of code: the paragraph before it, its language, its text."""

    told: str
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    parts = re.split(r"^```(\w*)\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    # text, language, code, "" (of the closing fence), text, ...
    told = [text.strip().split("\n\n")[-1] for text in parts[0::4]]
    return [Block(*one) for one in zip(told, parts[1::4], parts[2::4], strict=False)]


def follow(page: Path, folder: Path) -> list[Block]:
    """Do in `folder` what a page says about files; the blocks that are left, to be run."""
    rest = []
    for block in blocks(page):
        if saved := re.search(r"[Ss]ave this as\s+`([^`]+)`", block.told):
            path = folder / saved[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            if path.name == "pyproject.toml":
                install(path)
        elif place := re.search(r"In `([^`]+)`, (in|above) `([A-Z]+)`:$", block.told):
            name, where, table = place.groups()
            source = (folder / name).read_text(encoding="utf-8")
            head = rf"^((?:#: .*\n)*)({table}: [^\n]*[{{\[(]\n)"
            new = f"{block.text}\n\n\\1\\2" if where == "above" else f"\\1\\2    {block.text.strip()}\n"
            source, count = re.subn(head, new, source, flags=re.MULTILINE)
            assert count == 1, f"{page.name}: {name} has no {table}"
            (folder / name).write_text(source, encoding="utf-8")
        else:
            rest.append(block)
    return rest


def install(project: Path) -> None:
    """What pip does for a project, as far as Python sees it: `run` has the folder of a package on Python's path."""
    told = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    outside.install(project.parent, told["name"], told["entry-points"], {})


def run(folder: Path, *command: str, within: str = ".") -> str:
    """What a command says in the copy, or in a folder within it; it must end well."""
    environment = os.environ | {
        "PYTHONPATH": f"{folder}:{folder / 'ourlab'}",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    done = subprocess.run(command, cwd=folder / within, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shell(folder: Path, commands: str, workflow: bool) -> str:
    """Run a page's commands; without `workflow` what Snakemake would run is run without it."""
    said = ""
    for line in commands.splitlines():
        if line.startswith("snakemake ") and not workflow:
            said += run(folder, sys.executable, "-c", WORKFLOW, line.split()[-1])
        else:
            said += run(folder, "bash", "-ec", re.sub(r"^hargo ", f"{sys.executable} -m hargo ", line))
    return said


def copied(folder: Path) -> Path:
    for name in ("hargo", "workflow", "profiles", "config"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "Snakefile", folder)
    return folder


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file() and path.suffix != ".pyc"}


SHOW = "from hargo.config import load_study; print(load_study('config/demo.yaml'), load_study('config/paper.yaml'))"


def followed(page: Path, folder: Path, workflow: bool = False) -> str:
    """What the page's code and commands say; the project's own studies resolve to what they were before."""
    before, code = run(copied(folder), sys.executable, "-c", SHOW), contents(folder / "hargo")
    rest = follow(page, folder)
    assert page.stem == "report-section" or contents(folder / "hargo") == code, "it is code outside the package"
    assert run(folder, sys.executable, "-c", SHOW) == before
    for block in rest:
        if block.language == "python":
            run(
                folder, sys.executable, "-c", block.text, within="mine" if "In the folder `mine`" in block.told else "."
            )
    return "".join(shell(folder, block.text, workflow) for block in rest if block.language == "sh")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_is_followed_to_its_end(page: Path, tmp_path: Path) -> None:
    said = followed(page, tmp_path)
    CHECKS[page.stem](tmp_path, said)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_s_commands_run_the_workflow(page: Path, tmp_path: Path) -> None:
    followed(page, tmp_path, workflow=True)
    for line in (line for block in blocks(page) for line in block.text.splitlines() if line.startswith("snakemake ")):
        assert "Nothing to be done" in run(tmp_path, "bash", "-ec", f"{line} --dry-run")


def table(folder: Path, study: str) -> dict[str, dict[str, str]]:
    with (folder / "results" / study / "report" / "summary.csv").open(encoding="utf-8", newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def task(folder: Path, said: str) -> None:
    assert "valid study 'sbatch': pretrain, sft, grpo; seeds [0]; tasks sbatch_option" in said
    text = (folder / "results/sbatch/report/report.md").read_text(encoding="utf-8").replace("\\_", "_")
    # a model of this size knows nothing after ten steps, and the nearest training row something
    assert "sbatch_option accuracy: the best language model" in text and "above it" in text
    assert re.search(r"^\| GRPO \| sbatch options % \|", text, re.MULTILINE)
    rows = table(folder, "sbatch")
    assert float(rows["1-NN"]["accuracy_sbatch_option_mean"]) > 0
    assert not any("paper" in column for column in rows["grpo"]) and "54.62" not in text and "53.17" not in text


def method(folder: Path, said: str) -> None:
    example = "import doctest, focal_loss as m; r = doctest.testmod(m); assert r.attempted > 2 and not r.failed"
    run(folder, sys.executable, "-c", example, within="mine")
    assert {"sft", "grpo", "focal"} <= table(folder, "focal").keys()
    assert "Focal GRPO" in (folder / "results/focal/report/report.md").read_text(encoding="utf-8")
    assert "focal  (Focal GRPO)" in said and "Exponent of a prompt's difficulty" in said


def data_source(folder: Path, said: str) -> None:
    assert "valid study 'kernels': pretrain, sft; seeds [0]; tasks race_c" in said
    rows = (folder / "results/kernels/data/eval.jsonl").read_text().splitlines()
    assert rows and all('"family"' in row for row in rows)
    (folder / "mine/kernels.csv").write_text("code,race,origin\nx,maybe,y\n")
    command = [sys.executable, "-m", "hargo", "data", "build", "--config", "mine/kernels.yaml", "--out", "out"]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True
    )
    assert done.returncode == 2 and "kernels.csv, row 1: needs code, origin, and yes or no as race" in done.stderr


def sampler(folder: Path, said: str) -> None:
    steps = [json.loads(line) for line in (folder / "results/generate/train/grpo/seed0/metrics.jsonl").open()]
    assert len(steps) == 2 and 0 < steps[0]["rollout_gap"] < 1e-3  # another sampler, the same model
    assert {"sft", "grpo"} <= table(folder, "generate").keys()


def trainer(folder: Path, said: str) -> None:
    assert "valid study 'hill': pretrain, sft, hill, grpo" in said
    assert len((folder / "results/hill/train/hill/seed0/metrics.jsonl").read_text().splitlines()) == 2
    assert {"sft", "grpo", "hill"} <= table(folder, "hill").keys()


def packages(folder: Path, said: str) -> None:
    assert "careful  (Careful GRPO)" in said and "beta               0.5 " in said
    assert "valid study 'careful': pretrain, sft, careful" in said
    assert "Careful GRPO" in (folder / "results/careful/report/report.md").read_text(encoding="utf-8")


def report_section(folder: Path, said: str) -> None:
    for name in ("report.md", "report.html"):
        assert "Favourite answers" in (folder / "results/favourites/report" / name).read_text(encoding="utf-8")


CHECKS: dict[str, Callable[[Path, str], None]] = {
    "task": task,
    "method": method,
    "data-source": data_source,
    "sampler": sampler,
    "trainer": trainer,
    "packages": packages,
    "report-section": report_section,
}
