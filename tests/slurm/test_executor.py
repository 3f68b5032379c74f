"""The submitit executor on real daemons: what it submits, how it tells of failures, how it stops."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from cluster import Cluster
from runs import Run, eventually

WORKFLOW = """
rule all:
    input: expand("out/{{i}}", i=range({count}))
rule one:
    output: "out/{{i}}"
    resources: runtime=1, mem_mb=300
    shell: "{command}"
"""
BUT_ONE = "test {wildcards.i} != 7 && echo {wildcards.i} > {output}"
VARIED = """
rule all:
    input: "out/memory", "out/gpus"
rule memory:
    output: "out/memory"
    retries: 1
    resources: runtime=2, mem_mb=lambda wildcards, attempt: 250 if attempt == 1 else 900
    shell: "python3 -c 'x = bytearray(400 * 2**20); import time; time.sleep(6)' && echo {resources.mem_mb} > {output}"
rule gpus:
    output: "out/gpus"
    resources: runtime=2, mem_mb=300, gpu=2, slurm_partition="gpu", tasks=1
    shell: "echo $CUDA_VISIBLE_DEVICES >> {output}"
"""


def test_equal_jobs_are_one_array_and_the_one_that_fails_is_reported_as_itself(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, WORKFLOW.format(count=12, command=BUT_ONE), "-k")
    assert run.wait() == 1, run.told
    assert {path.name for path in (tmp_path / "out").iterdir()} == {str(i) for i in range(12) if i != 7}, run.told
    assert run.calls("sbatch") == 1 and run.calls("sacct") <= 1 and run.calls("scontrol") <= 1
    (message,) = [line for line in run.told.splitlines() if "message: job" in line]
    assert "state FAILED, reason NonZeroExitCode, exit code 1:0, node node" in message, run.told
    assert "output: out/7\n" in run.told.partition("Error in rule")[2], run.told
    assert "log: " in run.told and "test 7 != 7" in run.told, run.told


@pytest.mark.slow
def test_two_hundred_jobs_are_two_submissions_and_one_call_a_poll(cluster: Cluster, tmp_path: Path):
    command = BUT_ONE.replace("7", "77")
    began = time.monotonic()
    # 32 at a time on a few cores start slowly
    workflow = WORKFLOW.format(count=200, command=command).replace("runtime=1", "runtime=10")
    run = Run(cluster, tmp_path, workflow, "-k")
    assert run.wait(900) == 1, run.told
    polls = (time.monotonic() - began) / 2
    assert {path.name for path in (tmp_path / "out").iterdir()} == {str(i) for i in range(200) if i != 77}
    assert run.calls("sbatch") <= 2
    assert run.calls("squeue", "sacct", "scontrol") <= polls / 4  # and most polls read results alone
    assert run.told.count("\nError in rule one") == 1 and "output: out/77" in run.told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_job_behind(cluster: Cluster, tmp_path: Path, number: signal.Signals):
    run = Run(cluster, tmp_path, WORKFLOW.format(count=3, command="sleep 100 && touch {output}"))
    eventually(lambda: cluster.command("squeue", "-h", "-t", "R").count("\n") == 2)
    run.process.send_signal(number)
    assert run.wait(60) != 0
    eventually(lambda: not cluster.command("squeue", "-h"), 30)
    assert run.calls("scancel") == 1 and "Cancelled 3 jobs" in run.told, run.told


def test_more_memory_at_the_second_attempt_and_two_gpus_for_one_command(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, VARIED)
    assert run.wait() == 0, run.told
    assert (tmp_path / "out/memory").read_text() == "900\n"
    assert "out of memory" in run.told and run.calls("sbatch") == 3
    assert (tmp_path / "out/gpus").read_text() == "0,1\n"  # one line: the command ran once


def test_without_slurm_the_same_jobs_run_on_this_machine(cluster: Cluster, tmp_path: Path):
    for mode in ("local", "debug"):
        (tmp_path / mode).mkdir()
        options = ("-k", "--submitit-cluster", mode, "--jobs", "2")
        run = Run(cluster, tmp_path / mode, WORKFLOW.format(count=2, command=BUT_ONE.replace("7", "1")), *options)
        assert run.wait() == 1 and run.calls("sbatch", "squeue") == 0, run.told
        assert [path.name for path in (tmp_path / mode / "out").iterdir()] == ["0"], run.told
        assert "exit status 1" in run.told, run.told
    run = Run(cluster, tmp_path, None, "--snakefile", "local/Snakefile", "--submitit-cluster", "cloud")
    assert run.wait() == 1 and "must be one of slurm, local, debug" in run.told


LATE = """
rule all:
    input: "b"
rule a:
    output: "a"
    resources: runtime=1, mem_mb=300
    shell: "touch {output}"
rule b:
    input: "a"
    output: "b"
    resources: runtime=1, mem_mb=300, slurm_bogus="x"
    shell: "touch {output}"
"""


def test_a_mistake_in_a_late_rule_is_found_before_the_first_submission(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, LATE)
    assert run.wait() == 1 and run.calls("sbatch") == 0
    assert "rule b: unknown resource 'slurm_bogus'" in run.told, run.told
    (tmp_path / "100%j").mkdir()
    run = Run(cluster, tmp_path, None, "--submitit-folder", "100%j")
    assert run.wait() == 1 and "Slurm expands % in names" in run.told, run.told
    (tmp_path / "file").touch()
    run = Run(cluster, tmp_path, None, "--submitit-folder", "file")
    assert run.wait() == 1 and "--submitit-folder" in run.told and "File exists" in run.told, run.told


def test_a_job_that_waits_for_what_cannot_come_is_told_of(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, WORKFLOW.format(count=1, command="touch {output}").replace("runtime=1", "nodes=9"))
    eventually(lambda: "waits: Slurm says Partition" in run.told)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(60) != 0


def test_scripts_are_shown_without_submitting(cluster: Cluster, tmp_path: Path):
    run = Run(cluster, tmp_path, VARIED, "--submitit-script", "gpus")
    assert run.wait() == 0 and run.calls("sbatch") == 0
    for line in ("--partition=gpu", "--gres=gpu:2", "--mem=300M", "--time=2", "--signal=USR2@30"):
        assert f"#SBATCH {line}\n" in run.told, run.told
    assert "wckey" not in run.told, run.told
    assert "--target-jobs 'gpus:'" in run.told
    run = Run(cluster, tmp_path, VARIED, "--submitit-script", "gpu")
    assert run.wait() == 1 and "no job of rule 'gpu' would be submitted, only jobs of: gpus, memory" in run.told


def test_a_key_of_the_accounting_is_sent_only_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Submitit's own would be refused by sites that enforce keys. Writing a script needs no Slurm."""
    from snakemake_executor_plugin_submitit.clusters import Slurm
    from snakemake_executor_plugin_submitit.resources import parameters
    from snakemake_executor_plugin_submitit.task import Task

    monkeypatch.setenv("PATH", "")
    tasks = [Task("touch a", 5.0), Task("touch b", 5.0)]
    for extra, keys in (("", 0), ("--wckey=mine", 1)):
        wanted = parameters({"runtime": 3, "slurm_extra": extra}, 1, "one")
        for some in (tasks, tasks[:1]):
            text = Slurm(tmp_path, 30, 20).script(wanted, some, "one")
            assert text.count("wckey") == text.count("#SBATCH --wckey=mine\n") == keys, text


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"slurm_partitoin": "cpu"}, "did you mean 'slurm_partition'"),
        ({"mem_mb": 100, "mem_mb_per_cpu": 50}, "contradict each other"),
        ({"gpu": 1, "gres": "gpu:1"}, "contradict each other"),
        ({"gpu_model": "a100"}, "needs 'gpu'"),
        ({"runtime": "1h"}, "must be a whole number"),
        ({"slurm_extra": "--array=1-3"}, "left to the executor"),
        ({"slurm_extra": "--wait"}, "left to the executor"),
        ({"slurm_extra": "--mem=1G"}, "use the resource 'mem_mb'"),
        ({"slurm_extra": '--comment="un'}, "No closing quotation"),
        ({"slurm_extra": "exclusive"}, "write options as --name=value"),
    ],
)
def test_a_resource_that_cannot_be_is_an_error_before_submission(resources, message):
    from snakemake_interface_common.exceptions import WorkflowError

    from snakemake_executor_plugin_submitit.resources import parameters

    with pytest.raises(WorkflowError, match=message):
        parameters(resources, 1, "one")


def test_resources_become_options_under_their_usual_names():
    from snakemake_executor_plugin_submitit.resources import parameters

    found = parameters(
        {"slurm_partition": "gpu", "runtime": 30, "mem_mb": 500, "gpu": 2, "gpu_model": "h100", "disk_mb": 9,
         "slurm_extra": "--exclusive --mail-type=END"}, 4, "one"
    )  # fmt: skip
    assert found["time"] == 30 and found["cpus_per_task"] == 4
    assert found["additional_parameters"] == {
        "partition": "gpu", "mem": "500M", "gres": "gpu:h100:2", "exclusive": True, "mail-type": "END", "requeue": True
    }  # fmt: skip
    # a type that a profile gives to all rules is no business of those without a GPU
    assert "gres" not in parameters({"gpu": 0, "gpu_model": "h100"}, 1, "one")["additional_parameters"]
