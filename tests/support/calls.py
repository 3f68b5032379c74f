"""Snakemake on the workflow, in a folder of a test: what it says, and which jobs it plans."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import uuid
from pathlib import Path
from typing import NamedTuple

from places import ROOT

BIN = Path(sys.executable).parent
SNAKEFILE = ROOT / "workflow" / "Snakefile"
DEMO = ROOT / "config" / "demo.yaml"

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["snakemake.cli", "snakemake.report.html_reporter", "pandas", "yte", "hargo.cli", "pytest"])


def _call(arguments: list[str], log: Path, package: Path | None) -> None:
    """Runs in a process forked from one that has imported Snakemake, which saves most of its start-up time."""
    if package is not None:
        from hargo import fingerprint

        fingerprint.PACKAGE = package
    handle = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.environ |= {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(log.parent / ".cache")}  # no environment on PATH
    from snakemake.cli import main

    main(arguments)


class Done(NamedTuple):
    """How a call of Snakemake ended: exit status, and what it wrote to standard output and error."""

    code: int
    text: str


def snakemake(folder: Path, *arguments: object, package: Path | None = None) -> Done:
    """Snakemake in a working directory of its own. package: a copy of hargo whose code counts as that in use."""
    log = folder / f"{uuid.uuid4().hex}.out"
    command = ["--snakefile", SNAKEFILE, "--directory", folder, "--cores", "2", *arguments]
    process = FORK.Process(target=_call, args=(list(map(str, command)), log, package))
    process.start()
    process.join()
    return Done(process.exitcode or 0, log.read_text())


def jobs(folder: Path, *arguments: object, study: Path | None = DEMO, package: Path | None = None) -> dict[str, int]:
    """Rule -> number of jobs that a dry-run announces, the rule `all` left out."""
    configfile = ["--configfile", study] if study else []
    done = snakemake(folder, "--dry-run", *configfile, *arguments, package=package)
    assert done.code == 0, done.text
    table = re.search(r"^job +count\n-+ +-+\n(.*?)^total", done.text, re.MULTILINE | re.DOTALL)
    if table is None:
        assert "Nothing to be done" in done.text
        return {}
    counts = {name: int(count) for name, count in map(str.split, table[1].strip().splitlines())}
    return {name: count for name, count in counts.items() if name != "all"}


def taken_for_finished(folder: Path, study: Path) -> None:
    """Make `folder` one in which Snakemake takes a study for finished.

    All outputs are created empty, and `--touch` records them with the params that they would have been made with.
    """
    summary = snakemake(folder, "--configfile", study, "--summary").text
    for name in re.findall(r"^(results/\S+)\t", summary, re.MULTILINE):
        path = folder / name
        if path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        else:
            path.mkdir(parents=True)
            (path / "file").touch()
    done = snakemake(folder, "--configfile", study, "--touch", "--forceall")
    assert done.code == 0, done.text
