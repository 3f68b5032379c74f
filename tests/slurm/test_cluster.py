"""The cluster itself: what other tests rely on, on real daemons."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cluster as module
import pytest
from cluster import Cluster, ClusterError, port_is_free, process_start


def eventually(ready: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.1)


def submit(cluster: Cluster, script: str, *options: str) -> str:
    """The id of a new batch job."""
    return cluster.command("sbatch", "--parsable", *options, "--wrap", script)


def job(cluster: Cluster, number: str) -> dict[str, str]:
    """What the controller knows about a job."""
    shown = cluster.command("scontrol", "--oneliner", "show", "job", number)
    return dict(field.split("=", 1) for field in shown.split() if "=" in field)


def state(cluster: Cluster, number: str) -> str:
    return job(cluster, number)["JobState"]


def test_nodes_are_idle(cluster: Cluster) -> None:
    cluster.wait_idle()
    nodes = cluster.command("sinfo", "--noheader", "-N", "-p", "cpu", "-o", "%N %T %c %m %G").splitlines()
    assert nodes == [f"node{i} idle 8 8000 gpu:2" for i in range(1, 5)]
    partitions = cluster.command("sinfo", "--noheader", "-o", "%P %D").split("\n")
    assert partitions == ["cpu* 4", "gpu 2", "preempt 4", "urgent 4"]


def test_every_daemon_listens_on_loopback_only(cluster: Cluster) -> None:
    if not module.this_machine()[2]:
        pytest.skip("the name of this machine does not resolve to 127.0.0.1")
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    addresses = {int(line[1].split(":")[1], 16): line[1].split(":")[0] for line in listening if line[3] == "0A"}
    ours = {port: address for port, address in addresses.items() if port in cluster.ports}
    # the controller, the port that is held and four nodes
    assert sorted(port - cluster.ports[0] for port in ours) == [0, 1, 11, 12, 13, 14]
    assert all(address == "0100007F" for address in ours.values())


def test_a_job_runs_and_its_output_arrives(cluster: Cluster, tmp_path: Path) -> None:
    submit(cluster, "echo done on $SLURMD_NODENAME", f"--output={tmp_path / 'out'}")
    eventually(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text().startswith("done on node"))


def test_a_gpu_job_sees_its_gpus(cluster: Cluster, tmp_path: Path) -> None:
    for count, expected in ((1, "0"), (2, "0,1")):
        out = tmp_path / str(count)
        submit(cluster, "echo gpus $CUDA_VISIBLE_DEVICES end", "-p", "gpu", f"--gres=gpu:{count}", f"--output={out}")
        eventually(lambda out=out, text=f"gpus {expected} end\n": out.exists() and out.read_text() == text)
        cluster.wait_idle()


def test_urgent_work_requeues_a_job_after_its_signal_and_grace(cluster: Cluster, tmp_path: Path) -> None:
    cluster.wait_idle()
    script = f"trap 'echo signal >> {tmp_path}/signals' USR2; for i in $(seq 600); do sleep 0.1; done"
    whole = ("--nodes=4", "--exclusive", "--output=/dev/null")
    low = submit(cluster, script, "-p", "preempt", "--requeue", "--signal=B:USR2@30", *whole)
    eventually(lambda: state(cluster, low) == "RUNNING")
    time.sleep(1)  # for the trap to be set
    high = submit(cluster, "sleep 1", "-p", "urgent", *whole)
    eventually(lambda: (tmp_path / "signals").exists())
    assert state(cluster, low) == "RUNNING"
    eventually(lambda: state(cluster, high) == "COMPLETED", 40)
    assert job(cluster, low)["Restarts"] == "1"
    eventually(lambda: state(cluster, low) == "RUNNING", 20)
    cluster.command("scancel", low)
    cluster.wait_idle()


def test_a_killed_controller_still_knows_its_jobs(cluster: Cluster, tmp_path: Path) -> None:
    saved = cluster.folder / "state/job_state"
    running = submit(cluster, f"sleep 8; echo end > {tmp_path}/out", "--job-name=survivor", "--output=/dev/null")
    waiting = submit(cluster, "true", f"--dependency=afterok:{running}", "--job-name=follower", "--output=/dev/null")
    eventually(lambda: state(cluster, running) == "RUNNING")
    eventually(lambda: saved.exists() and b"follower" in saved.read_bytes())
    cluster.kill_controller()
    assert "slurmctld" not in cluster.alive()
    cluster.start_controller()
    assert (job(cluster, running)["JobName"], job(cluster, waiting)["JobName"]) == ("survivor", "follower")
    eventually(lambda: state(cluster, waiting) == "COMPLETED")
    assert (tmp_path / "out").read_text() == "end\n"


def test_a_killed_node_takes_its_job_along_and_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    number = submit(cluster, f"echo $$ > {tmp_path}/pid; exec sleep 300", "-w", "node2", "--output=/dev/null")
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    cluster.kill_node(2)
    assert "node2" not in cluster.alive()
    eventually(lambda: process_start(int((tmp_path / "pid").read_text())) is None)
    # what the controller does by itself after SlurmdTimeout
    cluster.command("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=test")
    eventually(lambda: job(cluster, number)["Restarts"] == "1")
    cluster.start_node(2)
    cluster.command("scontrol", "update", "NodeName=node2", "State=RESUME")
    cluster.command("scancel", number)
    cluster.wait_idle()


def test_accounting_shows_a_finished_job(accounting_cluster: Cluster) -> None:
    number = submit(accounting_cluster, "exit 3", "--output=/dev/null")
    ask = ("sacct", "--noheader", "--parsable2", "-X", "-j", number, "-o", "State,ExitCode")
    eventually(lambda: accounting_cluster.command(*ask) == "FAILED|3:0")


def test_after_stop_nothing_is_left(tmp_path: Path, cluster: Cluster) -> None:
    with Cluster(nodes=1) as small:
        stubborn = f"trap '' TERM; echo $$ >> {tmp_path}/pids; setsid sleep 300 & echo $! >> {tmp_path}/pids; sleep 300"
        submit(small, stubborn, "--output=/dev/null")
        eventually(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
        small.kill_controller()  # so that nothing is cancelled in good order
        pids = [pid for pid, _ in small.processes.values()] + list(map(int, (tmp_path / "pids").read_text().split()))
        assert sum(process_start(pid) is not None for pid in pids) == len(pids) - 1
    assert not any(process_start(pid) for pid in pids)
    assert all(port_is_free(port) for port in small.ports)
    assert sorted(path.name for path in small.folder.iterdir()) == ["cluster.json", "etc", "log"]
    shutil.rmtree(small.folder)
    assert len(cluster.alive()) == 6  # another cluster is not touched


def test_the_command_line_starts_and_stops_a_cluster_that_outlives_it(cluster: Cluster) -> None:
    folder = Path(f"/tmp/hargo-slurm-test-{os.getpid()}")

    def call(action: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, module.__file__, action, "--folder", str(folder)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    up = call("up")
    try:
        assert up.returncode == 0, up.stderr
        assert up.stdout.splitlines()[-1] == f"export SLURM_CONF={folder}/etc/slurm.conf" == call("env").stdout.strip()
        again = call("up")
        assert again.returncode == 1
        assert again.stderr.startswith(f"error: a cluster runs in {folder} already")
        running = Cluster.load(folder)
        assert running.command("squeue", "--noheader") == ""
    finally:
        down = call("down")
        shutil.rmtree(folder)
    assert down.returncode == 0, down.stderr
    assert running.alive() == []
    assert not any(process_start(pid) for pid, _ in running.processes.values())


def test_one_command_runs_on_a_cluster_of_its_own(cluster: Cluster) -> None:
    command = [
        sys.executable,
        module.__file__,
        "run",
        "--",
        "bash",
        "-c",
        "sinfo -h -o %N; dirname $SLURM_CONF; exit 3",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    nodes, folder = done.stdout.split()[0], done.stdout.split()[-1]
    assert (done.returncode, nodes) == (3, "node[1-4]"), done.stderr
    assert not Path(folder).exists()


def test_a_start_that_fails_says_why_and_leaves_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = module.slurm_conf
    monkeypatch.setattr(module, "slurm_conf", lambda *args: conf(*args) + "SelectType=select/nonsense\n")
    broken = Cluster(nodes=1)
    with pytest.raises(ClusterError, match=r"slurmctld does not run\n.*slurmctld.log:\n(.*\n)*.*select/nonsense"):
        broken.start()
    assert broken.alive() == []
    shutil.rmtree(broken.folder)


def test_folders_that_cannot_work_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/file").write_text("mine")
    with pytest.raises(ClusterError, match="holds no cluster"):
        Cluster(tmp_path / "own").start()
    with pytest.raises(ClusterError, match="longer than 70 bytes"):
        Cluster(tmp_path / ("x" * 100)).start()
    assert (tmp_path / "own/file").read_text() == "mine"


def test_missing_executables_are_named_with_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = ("munged", "slurmdbd")
    monkeypatch.setattr("shutil.which", lambda name, path: None if name in absent else f"/usr/bin/{name}")
    assert module.missing() == ["munged"]
    assert module.missing(accounting=True) == ["munged", "slurmdbd"]
    assert module.why_not(accounting=True) == "munged, slurmdbd not found: apt-get install munge slurmdbd"
