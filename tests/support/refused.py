"""What a study that is refused is told."""

from __future__ import annotations

from typing import Any

import pytest

from hargo.config import study_from
from hargo.errors import UserError

SCRATCH: dict[str, Any] = {"name": "x", "data": {"protocol": "given"}, "pretrain": {}}


def message(**sections: Any) -> str:
    """The error of a scratch study with these sections."""
    with pytest.raises(UserError) as caught:
        study_from({**SCRATCH, **sections}, "study.yaml")
    text = str(caught.value)
    assert "\n" not in text and text.startswith("study.yaml: ")
    return text
