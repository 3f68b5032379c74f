"""The settings of a run, beside its checkpoints: those of other settings are never used; the log says what differs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hargo.errors import UserError
from hargo.io import read_json
from hargo.training import checkpoint

logger = logging.getLogger(__name__)

SETTINGS = "settings.json"


def tell_of_others(folder: Path, settings: dict[str, Any], title: str) -> None:
    """Warn where `folder` is new and a run of the same title with other settings has checkpoints beside it."""
    others = [other for other in folder.parent.iterdir() if other != folder and checkpoint.complete(other)]
    read = [(checkpoint.complete(other)[-1], values) for other in others if (values := _read(other))]
    same = [(newest, values) for newest, values in read if values.get("stage") == settings["stage"]]
    if not same:
        return
    newest, theirs = max(same, key=lambda one: one[0].stat().st_mtime)
    logger.warning(
        "%s: starts from the beginning; %s has other settings and is left in place: %s",
        title,
        newest,
        "; ".join(differences(theirs, settings)),
    )


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two settings, as `options.learning_rate was 0.001, is 0.002`; code by its files."""
    old, new = dict(_flat(before)), dict(_flat(json.loads(json.dumps(after, default=str))))
    changes = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key, "not set"), new.get(key, "not set")
        if was != now:
            section, _, file = key.partition(".")
            changes.append(f"{file} has changed" if section == "code" else f"{key} was {was}, is {now}")
    return changes


def _flat(value: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, dict):
            yield from _flat(item, f"{before}{key}.")
        else:
            yield f"{before}{key}", item


def _read(folder: Path) -> dict[str, Any] | None:
    try:
        settings = read_json(folder / SETTINGS)
    except UserError:
        return None
    return settings if isinstance(settings, dict) else None
