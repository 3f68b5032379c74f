"""Two hundred trivial jobs through this project's executor and through snakemake-executor-plugin-slurm.

    python benchmarks/bench_executor.py [--jobs N]

On a fresh Slurm cluster of this machine, with accounting, which the other executor needs. Counts every call of Slurm's
programs, by the executors and inside their jobs, and writes benchmarks/executor.md.
"""

from __future__ import annotations

import argparse
import getpass
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/slurm"))

from cluster import Cluster  # noqa: E402
from runs import PROGRAMS, Run  # noqa: E402

PEER = "snakemake-executor-plugin-slurm==2.8.0"
WORKFLOW = """
rule all:
    input: expand("out/{{i}}", i=range({count}))
rule one:
    output: "out/{{i}}"
    resources: runtime=5, mem_mb=900, slurm_partition="cpu", slurm_account="bench"
    shell: "echo {{wildcards.i}} > {{output}}"
"""
EXECUTORS = {"submitit": (), "slurm": ("--slurm-init-seconds-before-status-checks", "2")}


def measure(cluster: Cluster, executor: str, count: int, packages: Path) -> dict[str, float]:
    """Seconds and calls of one run; an error if a job was not done."""
    with tempfile.TemporaryDirectory(dir=HERE.parent / "build") as folder:
        began = time.monotonic()
        run = Run(
            cluster,
            Path(folder),
            WORKFLOW.format(count=count),
            *EXECUTORS[executor],
            executor=executor,
            packages=packages if executor == "slurm" else None,
        )
        status = run.wait(3600)
        seconds = time.monotonic() - began
        done = len(list((Path(folder) / "out").glob("*")))
        if status != 0 or done != count:
            sys.exit(f"{executor}: status {status}, {done} of {count} jobs\n{run.told[-3000:]}")
        return {"wall s": seconds, **{name: run.calls(name) for name in PROGRAMS}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    count = parser.parse_args().jobs
    (HERE.parent / "build").mkdir(exist_ok=True)
    packages = HERE.parent / "build" / "peer"
    if not packages.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(packages)]
        subprocess.run([*pip, PEER, "snakemake-executor-plugin-slurm-jobstep"], check=True)
    with Cluster(accounting=True) as cluster:
        cluster.command("sacctmgr", "-i", "add", "account", "bench")
        cluster.command("sacctmgr", "-i", "add", "user", getpass.getuser(), "account=bench")
        found = {name: measure(cluster, name, count, packages) for name in EXECUTORS}
    columns = list(found["submitit"])
    lines = [
        f"# {count} jobs of one shell line each",
        "",
        f"Snakemake on a Slurm 22.05 of four nodes on one machine with {os.cpu_count()} cores ({platform.machine()}),",
        f"polling every two seconds. Peer: {PEER}. Measured by `benchmarks/bench_executor.py`, one run each.",
        "",
        "| executor | " + " | ".join(columns) + " |",
        "|---" * (len(columns) + 1) + "|",
        *(
            f"| {name} | " + " | ".join(f"{values[column]:.0f}" for column in columns) + " |"
            for name, values in found.items()
        ),
        "",
    ]
    text = "\n".join(lines)
    (HERE / "executor.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
