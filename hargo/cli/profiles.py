"""A user's Snakemake profile for a Slurm cluster, from profiles/slurm and what sinfo and sacctmgr say."""

from __future__ import annotations

import getpass
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from hargo.errors import UserError
from hargo.io import write_text

TEMPLATE = Path(__file__).parents[2] / "profiles/slurm/config.yaml"


@dataclass
class Site:
    """What a site must fill in; gpu: `none`, or a type, or empty for any. notes: why these values, for people."""

    partition: str
    account: str
    gpu: str
    notes: list[str] = field(default_factory=list)


def propose(partition: str | None, account: str | None, gpu: str | None) -> Site:
    """Values for a profile; what is not given comes from the cluster. Raises UserError for one it does not have."""
    # default partitions are marked with a star
    listed = [line.split("|") for line in _lines("sinfo", "--noheader", "--format=%P|%G")]
    generic: dict[str, str] = {}
    for name, gres in listed:
        generic[name.rstrip("*")] = f"{generic.get(name.rstrip('*'), '')},{gres}"
    default = next((name.rstrip("*") for name, _ in listed if name.endswith("*")), "")
    if not listed and partition is None:
        raise UserError(
            "sinfo lists no partition of a Slurm cluster here; run this on a login node, or give --partition"
        )
    if partition is not None and listed and partition not in generic:
        raise UserError(f"--partition {partition}: this cluster has {', '.join(generic)}")
    site = Site(partition or default or next(iter(generic)), account or "", gpu or "")
    site.notes.append(f"partition {site.partition}" + ("" if partition else f" (of {', '.join(generic)})"))
    accounts = _accounts()
    if account is not None and accounts and account not in accounts:
        raise UserError(f"--account {account}: you have {', '.join(accounts)}")
    if account is None and len(accounts) == 1:
        site.account = accounts[0]
    if account is None and len(accounts) > 1:
        raise UserError(f"--account: you have several; choose one: {', '.join(accounts)}")
    unchecked = "" if accounts else " (not checked: this cluster lists no accounts)"
    none = "no account: this cluster lists none for you"
    site.notes.append(f"account {site.account}{unchecked}" if site.account else none)
    gpus = gpu_types(generic.get(site.partition, ""))
    types = sorted({kind for kind in gpus if kind})
    if gpu not in (None, "none") and listed and gpu not in types:
        has = ", ".join(types) if types else "GPUs without types; omit --gpu" if gpus else "no GPUs"
        raise UserError(f"--gpu {gpu}: partition {site.partition} has {has}")
    if gpu is None and listed:
        site.gpu = "none" if not gpus else types[0] if len(types) == 1 else ""
        if len(types) > 1:
            site.notes.append(f"GPU types: {', '.join(types)}; any will do; choose one with --gpu")
    descriptions = {"none": "no GPUs: models are trained on CPUs", "": "GPUs of any type"}
    site.notes.append(descriptions.get(site.gpu, f"GPU type {site.gpu}"))
    return site


def gpu_types(gres: str) -> list[str]:
    """Types of the GPUs in what sinfo's `%G` prints, such as `gpu:a100-sxm4:4(S:0-1),gpu:2`; empty for one without."""
    kinds = []
    # commas also stand between the sockets in brackets
    for entry in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *rest = entry.strip().split(":")
        if name == "gpu":
            kinds.append(":".join(rest[:-1]) if rest and re.fullmatch(r"\d+[KMGkmg]?", rest[-1]) else ":".join(rest))
    return kinds


def own() -> Path:
    """Where a user's profile `slurm` is or will be."""
    from snakemake.common import get_appdirs

    return Path(get_appdirs().user_config_dir) / "slurm" / "config.yaml"


def install(site: Site, force: bool) -> Path:
    """Write ~/.config/snakemake/slurm/config.yaml (XDG_CONFIG_HOME counts); force replaces an existing one."""
    path = own()
    text = render(site)
    if path.is_file() and path.read_text(encoding="utf-8") != text and not force:
        raise UserError(f"{path}: a profile already exists; --force replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def render(site: Site) -> str:
    """profiles/slurm with the values of a site, its comments kept."""
    if not TEMPLATE.is_file():
        raise UserError(f"{TEMPLATE}: no such file; install hargo from a clone (make env)")
    text = TEMPLATE.read_text(encoding="utf-8")
    for key, value in (("slurm_partition", site.partition), ("slurm_account", site.account)):
        if value:
            text = re.sub(rf'^  # {key}: "[A-Z]+"', f'  {key}: "{value}"', text, flags=re.MULTILINE)
    if site.gpu == "none":
        text = re.sub(r"^(\s+)gpu: 1$", r"\1gpu: 0", text, flags=re.MULTILINE)
    elif site.gpu:
        text = re.sub(r'^  # gpu_model: "[A-Z]+"', f'  gpu_model: "{site.gpu}"', text, flags=re.MULTILINE)
    return text


def _accounts() -> list[str]:
    user = getpass.getuser()
    lines = _lines("sacctmgr", "--noheader", "--parsable2", "show", "associations", f"user={user}", "format=account")
    return sorted({line for line in lines if line})


def _lines(*command: str) -> list[str]:
    """What a Slurm client prints; nothing where there is none or it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []
