"""The HPC-GPT instruction set from the Hugging Face hub.

The JSON files are fetched one by one into the hub cache and read as `hargo.data.hpcgpt` reads a folder: the four
files are four unrelated tables, which a data set loader would try to merge. Files that are in the cache are never
looked up on the network again, so a run on a compute node is the same as the first.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from hargo.config.options import DataOptions
from hargo.data.hpcgpt import FILES, read_file
from hargo.data.records import Row
from hargo.errors import UserError

logger = logging.getLogger(__name__)

#: the tasks that there are rows for
TASKS = tuple(FILES)

SECONDS = 10.0  # patience for an answer of the hub about one file


def load(options: DataOptions, tasks: list[str]) -> list[Row]:
    """Rows of `tasks` from the data set `options.path` at `options.revision` (None: its main branch).

    Raises UserError where a file is neither in the cache nor available from the hub.
    """
    rows: list[Row] = []
    for task in tasks:
        if task not in FILES:
            raise UserError(f"hub data set {options.path}: has no task {task!r}; remove it from `tasks`")
        rows += read_file(_file(options, FILES[task]), task)
    return rows


def prefetch(options: DataOptions, tasks: list[str] | None = None) -> list[Path]:
    """Fetch the files of `tasks` (default: all) into the hub cache; returns their paths."""
    return [_file(options, FILES[task]) for task in tasks or FILES]


def _file(options: DataOptions, name: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    what: dict[str, Any] = {
        "repo_id": str(options.path),
        "filename": name,
        "repo_type": "dataset",
        "revision": options.revision,
    }
    where = f"hub data set {options.path}" + (f" at revision {options.revision}" if options.revision else "")
    try:
        return Path(hf_hub_download(**what, local_files_only=True))
    except LocalEntryNotFoundError:
        logger.info("%s: fetching %s", where, name)
    except HFValidationError as error:
        raise UserError(f"data.path {options.path!r} is not a hub id such as HPC-GPT/HPC ({_line(error)})") from None
    try:
        return Path(hf_hub_download(**what, etag_timeout=SECONDS))
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "no"
        raise UserError(
            f"{where}: {name} cannot be fetched, since the hub answers {status}; check data.path and data.revision"
        ) from None
    except (LocalEntryNotFoundError, OSError, ValueError):
        raise UserError(
            f"{where}: {name} is not in the hub cache and the hub cannot be reached; "
            "run the prefetch rule (`hargo data prefetch --config STUDY`) where there is a network"
        ) from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
