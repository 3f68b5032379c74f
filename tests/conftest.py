"""Shared fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real data (`hpcgpt/`, `drb-sample/`), or a skip that says where it was looked for."""
    folder = Path(os.environ.get("HARGO_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        absent = pytest.fail if os.environ.get("HARGO_REQUIRE_DATA") else pytest.skip
        absent(f"real data not found at {folder}; set HARGO_SHARED to the folder that holds data/")
    return folder
