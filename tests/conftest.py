"""Shared fixtures."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from places import ROOT

if TYPE_CHECKING:
    from slurm.cluster import Cluster


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real data (`hpcgpt/`, `drb-sample/`), or a skip that says where it was looked for."""
    folder = Path(os.environ.get("HARGO_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        absent = pytest.fail if os.environ.get("HARGO_REQUIRE_DATA") else pytest.skip
        absent(f"real data not found at {folder}; set HARGO_SHARED to the folder that holds data/")
    return folder


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Four idle Slurm nodes without accounting. A test that kills something starts it again."""
    yield from running_slurm(request, accounting=False)


@pytest.fixture(scope="session")
def accounting_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Four idle Slurm nodes with slurmdbd, so that sacct answers."""
    yield from running_slurm(request, accounting=True)


def running_slurm(request: pytest.FixtureRequest, accounting: bool) -> Iterator[Cluster]:
    """A cluster while tests use it, a skip (with HARGO_REQUIRE_SLURM=1 a failure) where Slurm is not installed.

    Its logs are kept when a test failed.
    """
    from cluster import Cluster, why_not  # tests/slurm is on the path while its tests run

    if reason := why_not(accounting):
        absent = pytest.fail if os.environ.get("HARGO_REQUIRE_SLURM") == "1" else pytest.skip
        absent(f"no Slurm: {reason}")
    with Cluster(accounting=accounting) as started:
        yield started
    if not request.session.testsfailed:
        shutil.rmtree(started.folder)


@pytest.fixture(autouse=True)
def no_run_outlives_its_test() -> Iterator[None]:
    """Ends a Snakemake that a failed test on a cluster has left."""
    yield
    if "runs" in sys.modules:  # of tests/slurm
        while sys.modules["runs"].STARTED:
            process = sys.modules["runs"].STARTED.pop()
            if process.poll() is None:
                process.kill()
                process.wait()
