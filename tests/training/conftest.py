"""Where runs of training start from."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny

from hargo.models.prepare import prepare
from hargo.training.job import Places, train


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    """Data, a base model and an SFT model that answers with some skill."""
    folder = tmp_path_factory.mktemp("start")
    study = tiny.study(sft={"epochs": 9, "max_steps": 60, "learning_rate": 1e-2})  # enough to say yes or no
    data = tiny.write_data(folder / "data")
    prepare(study, data, folder / "base")
    train(study, "sft", 0, Places(folder / "base", data, folder / "sft", folder / "checkpoints" / "sft"))
    return folder
