"""Model folders: safetensors weights beside their tokenizer. Every stage reads and writes these."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from hargo.config import Study
from hargo.config.options import ComputeOptions
from hargo.engine.linear import use_onednn
from hargo.errors import UserError
from hargo.io import atomic_folder, write_errors
from hargo.models.switches import switch_on

logger = logging.getLogger(__name__)


def pick_device(wanted: str) -> torch.device:
    """`auto` is CUDA where there is one; asking for CUDA where there is none is an error."""
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise UserError("compute.device is 'cuda', but torch finds no CUDA device; use 'auto' or see `hargo doctor`")
    return torch.device("cuda" if available and wanted != "cpu" else "cpu")


def quiet() -> None:
    """No progress bars of transformers: they would fill batch logs."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()


def deterministic(study: Study) -> torch.device:
    """Fix the number of threads and ask for deterministic kernels; returns the device."""
    keep_memory()
    torch.set_num_threads(study.compute.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    # filling fresh memory is a debugging aid that costs a pass over every buffer
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    return pick_device(study.compute.device)


def keep_memory() -> None:
    """Make the C library keep freed memory for the next tensor instead of giving it back to the system.

    By default every large tensor is fresh memory, whose first touch costs several times what filling it does.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):  # the numbers are glibc's
        libc.mallopt(-4, 0)  # M_MMAP_MAX: large blocks from the heap too
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the heap does not shrink


def require(folder: str | Path) -> None:
    """UserError unless `folder` holds a model that may be read."""
    try:
        names = sorted(os.listdir(folder))
    except PermissionError:
        raise UserError(f"{folder}: permission denied; ask its owner, or `chmod -R a+rX` it") from None
    except OSError:
        names = []
    if "config.json" not in names:
        raise UserError(f"{folder}: no model here (config.json is missing); run the stage that makes it")
    for name in names:
        if not os.access(Path(folder) / name, os.R_OK):
            raise UserError(f"{Path(folder) / name}: permission denied; ask its owner, or `chmod -R a+rX` the folder")


@contextmanager
def readable(folder: str | Path) -> Iterator[None]:
    """UserError of one line for a model folder that is damaged or lacks a file."""
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{folder}: cannot be read as a model ({first}); run the stage that makes it") from None


def load_tokenizer(folder: str | Path) -> Any:
    """The tokenizer in a model folder, checked against the size of the model's embedding."""
    from transformers import AutoConfig, AutoTokenizer

    require(folder)
    with readable(folder):
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        config = AutoConfig.from_pretrained(str(folder)).get_text_config()
    check_tokenizer(tokenizer, getattr(config, "vocab_size", None), folder)
    return tokenizer


def check_tokenizer(tokenizer: Any, rows: int | None, where: str | Path) -> None:
    """UserError where texts can give ids that the embedding of `rows` rows does not have.

    Padding is masked by position, so that any id serves: where there is none, or none within the embedding, it becomes
    the end-of-sequence token.
    """
    if tokenizer.eos_token_id is None:
        raise UserError(f"{where}: the tokenizer has no end-of-sequence token, which every answer must end with")
    spare = {tokenizer.pad_token_id}
    if tokenizer.pad_token_id is None or (rows is not None and tokenizer.pad_token_id >= rows):
        tokenizer.pad_token = tokenizer.eos_token
    if rows is None:
        return
    # special tokens come from the template alone, so those that it does not have may be outside
    template = json.dumps(tokenizer.chat_template, ensure_ascii=False)
    added = tokenizer.added_tokens_decoder
    spare |= {number for number, token in added.items() if token.special and token.content not in template}
    spare -= {tokenizer.eos_token_id, tokenizer.bos_token_id}
    largest = max(number for number in {*tokenizer.get_vocab().values(), *added} if number not in spare)
    if largest >= rows:
        raise UserError(
            f"{where}: the tokenizer gives ids up to {largest}, but the model's embedding has {rows} rows; "
            "use the tokenizer that belongs to the model, or resize its embedding"
        )


def load_model(folder: str | Path, device: torch.device, compute: ComputeOptions | None = None) -> Any:
    """The causal language model in a local folder, in float32 and evaluation mode (no dropout).

    Weights in a 16-bit type would swallow the small updates of RL; `compute.precision` is that of matrix products
    alone.
    """
    require(folder)
    with readable(folder):
        model = load_weights(folder, folder, local_files_only=True)
    model = model.to(device).eval()
    use_onednn(model)
    if compute is not None:
        switch_on(model, compute)
    return model


def load_weights(source: str | Path, where: str | Path, **options: Any) -> Any:
    """The causal language model that transformers finds at `source`, in float32.

    options: for `from_pretrained`; where: what to call it in errors
    UserError where a tensor is missing, does not fit or has no place: transformers would draw it at random or leave
    it out, and report that in the log only. The names that transformers expects to be absent may be.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    quiet()
    if "gguf_file" not in options:
        options["config"] = _config(source, {key: options[key] for key in options.keys() & {"revision"}})
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # what is wrong with tensors is said below, in one line
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(source),
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # to be told which
            **options,
        )
    finally:
        transformers_logging.set_verbosity(before)
    model, found = loaded
    _check_tensors(model, found, where)
    return model


def _config(source: str | Path, options: dict[str, Any]) -> Any:
    """The model's configuration; a padding id outside the embedding, which torch would refuse, is left out."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(str(source), **options)
    text = config.get_text_config()
    pad, rows = getattr(text, "pad_token_id", None), getattr(text, "vocab_size", None)
    if pad is not None and rows is not None and not -rows <= pad < rows:
        text.pad_token_id = None
    return config


def _check_tensors(model: Any, found: dict[str, Any], where: str | Path) -> None:
    misfits = [f"{name} is {_shape(has)}, should be {_shape(wants)}" for name, has, wants in found["mismatched_keys"]]
    known = {_without_numbers(name) for name, _ in model.named_modules()} - {"", model.base_model_prefix}
    foreign: list[str] = []
    ignored: list[str] = []
    for name in sorted(found["unexpected_keys"]):
        parts = _without_numbers(name).split(".")
        # beside the model's own parts, such as a value head or an image encoder, it changes no answer
        own = any(".".join(parts[:n]) in known for n in range(1, len(parts)))
        (foreign if own else ignored).append(name)
    problems = {
        "is missing": sorted(found["missing_keys"]),
        "does not fit the configuration": sorted(misfits),
        "has no place in the configuration": foreign,
    }
    for problem, names in problems.items():
        if names:
            raise UserError(f"{where}: {_listed(names)} {problem}; get the model's files again, or fix config.json")
    if ignored:
        logger.warning("%s: left out, since the language model does not use it: %s", where, _listed(ignored))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 3} more tensors" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _shape(size: Any) -> str:
    return " x ".join(map(str, size))


def _without_numbers(name: str) -> str:
    return re.sub(r"\b\d+\b", "0", name)


def forget_sampling(model: Any) -> None:
    """A generation configuration of token ids alone: settings of sampling that a model brings along are not used here,
    and some that contradict each other cannot be saved."""
    from transformers import GenerationConfig

    old = model.generation_config
    model.generation_config = GenerationConfig(
        bos_token_id=old.bos_token_id, eos_token_id=old.eos_token_id, pad_token_id=old.pad_token_id
    )


def save_model(folder: str | Path, model: Any, tokenizer: Any) -> None:
    """Write model and tokenizer as one folder that appears whole or not at all."""
    quiet()
    forget_sampling(model)
    with atomic_folder(folder) as temporary:
        with write_errors(temporary):
            model.save_pretrained(temporary, safe_serialization=True)
        tokenizer.save_pretrained(temporary)


def room_of(model: Any) -> int | None:
    """Tokens that fit into the model's context; None where its configuration sets no bound."""
    room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return None if room is None else int(room)


def check_context(model: Any, longest: int, what: str) -> None:
    """UserError where `longest` tokens are more than the model has positions for."""
    room = getattr(model.config, "max_position_embeddings", None)
    if room is not None and longest > room:
        raise UserError(
            f"{what}: prompt and answer take up to {longest} tokens, but the model has room for {room}; "
            "set max_prompt_tokens or max_new_tokens lower"
        )


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Every id that ends an answer: the tokenizer's and all of the generation configuration's."""
    ids = {tokenizer.eos_token_id}
    configured = model.generation_config.eos_token_id
    if configured is not None:
        ids.update(configured if isinstance(configured, list) else [configured])
    return sorted(ids)
