"""Clusters for the tests here. They skip where Slurm is not installed; with HARGO_REQUIRE_SLURM=1 they fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from cluster import Cluster, why_not


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Four idle nodes without accounting. A test that kills something starts it again."""
    yield from running(request, accounting=False)


@pytest.fixture(scope="session")
def accounting_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Four idle nodes with slurmdbd, so that sacct answers."""
    yield from running(request, accounting=True)


def running(request: pytest.FixtureRequest, accounting: bool) -> Iterator[Cluster]:
    """A cluster while tests use it; its logs are kept when a test failed."""
    if reason := why_not(accounting):
        absent = pytest.fail if os.environ.get("HARGO_REQUIRE_SLURM") == "1" else pytest.skip
        absent(f"no Slurm: {reason}")
    with Cluster(accounting=accounting) as started:
        yield started
    if not request.session.testsfailed:
        shutil.rmtree(started.folder)
