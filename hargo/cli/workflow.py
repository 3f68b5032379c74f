"""What the Snakefile needs from this package: its study, and stamps of the code and files that a rule's jobs use.

Stamps are params of the rules, so that Snakemake redoes what other code or other files have made, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hargo.errors import UserError

if TYPE_CHECKING:
    from hargo.config import Study

#: what `hargo model prepare` reads of a folder
MODEL_FILES = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt")
#: bytes up to which a file is known by its content; a larger one, by its size and time of change
READ_WHOLE = 16 * 2**20


def study_of(config: dict[str, Any], settings: Any, default: Path) -> Study:
    """The study of a call of Snakemake, from its files themselves: its own reader lets the last of two equal keys win.

    config: what the Snakefile sees; settings: Snakemake's `config_settings`. They differ where another workflow hands
    its own configuration to this one as a module. default: the study where neither names one.
    """
    from hargo.config.loading import load_merged, study_from
    from hargo.config.text import read_mapping, typed

    if config != settings.overwrite_config:
        for path in settings.configfiles:
            read_mapping(path)
        return study_from(typed(dict(config)), "config")
    files = settings.configfiles or ([] if "name" in config else [default])
    return load_merged(files, typed(dict(settings.config)))


def data_files(study: Study) -> list[Path]:
    """The files of a local data source, in order. Raises UserError where there are none."""
    if study.data.source in ("embedded", "hub") or study.data.path is None:
        return []
    folder = Path(study.data.path)
    if study.data.source == "drb":
        return kernels(folder)
    if study.data.source == "hpcgpt":
        return _some(
            folder.glob("*.json"),
            f"data.path: no JSON files in {folder}; set it with --config 'data={{path: FOLDER}}'",
        )
    if study.data.source == "jsonl":
        from hargo.data.jsonl import files

        return files(folder)
    return [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())


def kernels(folder: str | Path) -> list[Path]:
    """The kernels of a copy of DataRaceBench. Raises UserError where there are none."""
    return _some(Path(folder).rglob("DRB*-*.*"), f"{folder}: contains no kernels of DataRaceBench")


def model_files(study: Study) -> list[Path]:
    """The files of a local base model. Raises UserError where there are none."""
    if study.model.source not in ("folder", "gguf"):
        return []
    where = Path(str(study.model.path))
    paths = [where] if where.is_file() else [path for kind in MODEL_FILES for path in where.rglob(kind)]
    return _some(paths, f"model.path: no model at {where}")


def files_stamp(paths: Sequence[Path]) -> str:
    """A digest of files: other digits, other files. Names count, but not the folder that all of them are in."""
    digest = hashlib.sha256()
    for path in paths:
        about = path.stat()
        digest.update(f"{path.name}\0{about.st_size}\0".encode())
        if about.st_size > READ_WHOLE:
            digest.update(str(about.st_mtime_ns).encode())
        else:
            digest.update(path.read_bytes())
    return f"{len(paths)} files, {digest.hexdigest()[:8]}" if paths else "none"


def code_stamp(study: Study, stage: str) -> Callable[[Any], dict[str, str]]:
    """A param that depends on wildcards: part of the package, as `hargo/data` -> digest of what the stage uses of it.

    stage: a key of `hargo.config.code.STAGES`; for `train` the code of the job's run counts, not that of others.
    """
    from hargo.config.code import stage_code
    from hargo.fingerprint import digest

    def stamp(wildcards: Any) -> dict[str, str]:
        parts: dict[str, dict[str, str]] = {}
        for name, value in stage_code(study, stage, wildcards.run if stage == "train" else None).items():
            parts.setdefault("/".join(name.split("/")[:2]), {})[name] = value
        return {part: digest(digests) for part, digests in sorted(parts.items())}

    return stamp


def _some(paths: Iterable[Path], otherwise: str) -> list[Path]:
    files = sorted(path for path in paths if path.is_file())
    if not files:
        raise UserError(otherwise)
    return files
