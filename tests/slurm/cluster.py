"""A real Slurm cluster on this one machine, without systemd or containers, as root or as an ordinary user.

    python tests/slurm/cluster.py up|down|env [--folder F] [--accounting]
    python tests/slurm/cluster.py run [--accounting] -- COMMAND

Everything lives below one folder of mode 0700. The daemons run in the foreground, each in a session of its own, and are
remembered by process id and start time in `cluster.json`: a later call stops them and nothing else. They listen on
loopback only, provided that the name of this machine resolves to 127.0.0.1: Slurm can bind to the address of the name
or to every interface, and does the latter elsewhere, guarded by the key of munged. Tried with Slurm 22.05 (Debian 12).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import secrets
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired, run

#: Debian package -> one executable of it
PACKAGES = {"munge": "munged", "slurmctld": "slurmctld", "slurmd": "slurmd", "slurm-client": "sbatch"}
ACCOUNTING_PACKAGES = {"slurmdbd": "slurmdbd", "mariadb-server": "mariadb-install-db"}
#: daemons are in folders that an ordinary user's PATH often lacks
SEARCH_PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
#: offsets from the base port, on which slurmctld listens; node i listens on base + NODE + i
RESERVED, DBD, NODE = 1, 2, 10
MAX_PATH = 70  # bytes of the folder: a socket's path holds 107, and spool/node1/node1_1234567.4294967291 follows


def slurm_conf(folder: Path, base: int, nodes: int, accounting: bool) -> str:
    """The cluster's slurm.conf; nodes have the CPUs and the memory (MB) written here, whatever this machine has."""
    # cred_expire: a requeued job waits until its old credential has expired, by default for two minutes
    host, user, bind = this_machine()
    settings = f"""
ClusterName=lab SlurmctldHost={host}(127.0.0.1) SlurmctldPort={base} SlurmUser={user} SlurmdUser={user}
AuthType=auth/munge AuthInfo=socket={folder}/munge/socket,cred_expire=5 {bind}
StateSaveLocation={folder}/state SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmdParameters=config_overrides ProctrackType=proctrack/linuxproc JobAcctGatherType=jobacct_gather/linux
JobAcctGatherParams=OverMemoryKill JobAcctGatherFrequency=task=1
MpiDefault=none GresTypes=gpu ReturnToService=2 SlurmdTimeout=60 KillWait=5 DefMemPerCPU=100 MaxArraySize=2001
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0
SelectType=select/cons_tres SelectTypeParameters=CR_CPU_Memory PriorityType=priority/basic
PreemptType=preempt/partition_prio PreemptMode=REQUEUE SlurmctldParameters=preempt_send_user_signal
"""
    storage = f"""
AccountingStorageType=accounting_storage/slurmdbd AccountingStorageTRES=gres/gpu
AccountingStorageHost=127.0.0.1 AccountingStoragePort={base + DBD} AccountingStoragePass={folder}/munge/socket
"""
    lines = f"""
NodeName=node[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{base + NODE + 1}-{base + NODE + nodes}] \\
CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:2 State=UNKNOWN
PartitionName=DEFAULT Nodes=node[1-{nodes}] PriorityTier=10 PreemptMode=REQUEUE DefaultTime=10
PartitionName=cpu Default=YES
PartitionName=gpu Nodes=node[{nodes // 2 + 1}-{nodes}]
PartitionName=preempt Nodes=node[1-{nodes}] PriorityTier=1 GraceTime=20
PartitionName=urgent Nodes=node[1-{nodes}] PriorityTier=100 PreemptMode=OFF
"""
    return "\n".join((settings + storage if accounting else settings).split()) + lines


def this_machine() -> tuple[str, str, str]:
    """Host name, user name, and the setting that binds daemons to loopback where that is the address of the name."""
    name, bind = socket.gethostname(), ""
    with contextlib.suppress(OSError):
        if socket.gethostbyname(name) == "127.0.0.1":
            bind = "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"
    return name.split(".")[0], pwd.getpwuid(os.geteuid()).pw_name, bind


class ClusterError(RuntimeError):
    """The cluster does not start or a client command fails; the message says why."""


def missing(accounting: bool = False) -> list[str]:
    """The executables, with `accounting` those for it too, that this machine lacks."""
    needed = PACKAGES | (ACCOUNTING_PACKAGES if accounting else {})
    return [name for name in needed.values() if shutil.which(name, path=SEARCH_PATH) is None]


def why_not(accounting: bool = False) -> str:
    """What is missing and the Debian packages that hold it, or an empty text."""
    absent = missing(accounting)
    needed = [name for name, executable in (PACKAGES | ACCOUNTING_PACKAGES).items() if executable in absent]
    return f"{', '.join(absent)} not found: apt-get install {' '.join(needed)}" if absent else ""


def port_is_free(port: int) -> bool:
    """Whether nothing listens on this port of 127.0.0.1."""
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def process_start(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None for one that is gone or a zombie."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # those after the name
        return None if fields[0] in "ZX" else int(fields[19])
    return None


class Cluster:
    """A cluster below `folder` (default: a new one below /tmp) of node1 to nodeN with 8 CPUs and 2 fake GPUs each.

    Partitions: cpu (default), gpu (the upper half of the nodes), preempt (all nodes, low priority, 20 s of grace) and
    urgent (all nodes, takes them from jobs in preempt). With `accounting` also slurmdbd and a database, for sacct.
    """

    def __init__(self, folder: Path | None = None, nodes: int = 4, accounting: bool = False) -> None:
        self.folder = Path(folder or tempfile.mkdtemp(prefix="hargo-slurm-", dir="/tmp")).resolve()
        self.environment = {"SLURM_CONF": str(self.folder / "etc/slurm.conf")}  # what a client command needs
        self.names, self.accounting = [f"node{i}" for i in range(1, nodes + 1)], accounting
        self.ports = range(0)  # chosen by start()
        self.processes: dict[str, list[int]] = {}  # daemon -> process id, start time
        self._children: list[Popen[bytes]] = []
        self._reservation = socket.socket()

    @classmethod
    def load(cls, folder: Path) -> Cluster:
        """The cluster that another process started in this folder."""
        if not (folder / "cluster.json").exists():
            raise ClusterError(f"no cluster in {folder}")
        saved = json.loads((folder / "cluster.json").read_text())
        cluster = cls(folder, saved["nodes"], saved["accounting"])
        cluster.ports, cluster.processes = range(*saved["ports"]), saved["processes"]
        return cluster

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def command(self, *args: str, timeout: float = 20) -> str:
        """The stdout of a client command; ClusterError when it fails or takes longer than `timeout` seconds."""
        try:
            done = run(args, capture_output=True, text=True, timeout=timeout, env=self._variables())
        except TimeoutExpired:
            raise ClusterError(f"`{shlex.join(args)}` gave no answer within {timeout} s") from None
        if done.returncode:
            raise ClusterError(f"`{shlex.join(args)}` failed with status {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip()

    def start(self) -> None:
        """Start on fresh state and wait until all nodes are idle: about one second, with accounting six."""
        if reason := why_not(self.accounting):
            raise ClusterError(reason)
        self._prepare()
        try:
            munge = self.folder / "munge"
            (munge / "key").touch(0o600)
            (munge / "key").write_bytes(secrets.token_bytes(128))
            paths = [f"--socket={munge}/socket", *(f"--{x}-file={munge}/{x}" for x in ("key", "pid", "seed"))]
            # other users are kept out of the folder on purpose; without --force munged takes that for a mistake
            self._spawn("munged", "munged", "--foreground", "--force", *paths)
            self._wait("munged", (munge / "socket").exists, 10)
            if self.accounting:
                self._start_accounting()
            self.start_controller()
            for i in range(len(self.names)):
                self.start_node(i + 1)
            self.wait_idle(60)
        except BaseException:
            self.stop()
            raise

    def start_controller(self) -> None:
        """Start slurmctld; after kill_controller() it goes on from the state it last wrote (every five seconds)."""
        self._spawn("slurmctld", "slurmctld", "-D")
        self._wait("slurmctld", lambda: not port_is_free(self.ports[0]), 30)

    def kill_controller(self) -> None:
        """End slurmctld with SIGKILL, as a crash does."""
        self._end(["slurmctld"], signal.SIGKILL)

    def start_node(self, i: int) -> None:
        """Start slurmd of node i, counted from 1; slurmstepd has the variable from it, what jobs start from Slurm."""
        self._spawn(f"node{i}", "slurmd", "-D", "-N", f"node{i}", SLURMD_NODENAME=f"node{i}")

    def kill_node(self, i: int) -> None:
        """End slurmd of node i and all jobs there with SIGKILL, as a power cut does."""
        self._end([f"node{i}"], signal.SIGKILL)
        self._kill_jobs([f"node{i}"])

    def wait_idle(self, timeout: float = 30) -> None:
        """Wait until every node is idle; ClusterError with the ends of their logs after `timeout` seconds."""
        states = ("sinfo", "--noheader", "-N", "-p", "cpu", "-o", "%T")
        self._wait("slurmctld", lambda: set(self.command(*states).split()) == {"idle"}, timeout, *self.names)

    def alive(self) -> list[str]:
        """Names of the daemons that run: munged, mariadbd, slurmdbd, slurmctld, node1 …"""
        self._children = [child for child in self._children if child.poll() is None]
        return [name for name, (pid, start) in self.processes.items() if process_start(pid) == start]

    def stop(self) -> None:
        """Cancel all jobs, end every process of the cluster, delete all but its logs and configuration."""
        with contextlib.suppress(ClusterError):  # what cannot be cancelled is killed
            if "slurmctld" in self.alive():
                for state in ("PENDING", "RUNNING", "SUSPENDED"):
                    self.command("scancel", f"--state={state}")
                self._wait("slurmctld", lambda: not self.command("squeue", "--noheader"), 8)  # more than KillWait
        self._end(self.names)
        self._kill_jobs(self.names)
        for name in reversed(self.processes):
            self._end([name])
        for name in ("munge", "database", "state", "spool", "run"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        self._reservation.close()

    def _variables(self) -> dict[str, str]:
        """This process's variables without those of another Slurm job or cluster, with those of this one."""
        foreign = ("SLURM", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SCANCEL_", "SINFO_", "SACCT_")
        return (
            {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
            | self.environment
            | {"PATH": SEARCH_PATH}
        )

    def _prepare(self) -> None:
        """Make the folders, choose the ports and write the configuration."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.folder.stat().st_uid != os.geteuid():
            raise ClusterError(f"{self.folder} belongs to another user")
        if (self.folder / "cluster.json").exists():
            if running := Cluster.load(self.folder).alive():
                damaged = "" if "slurmctld" in running else "; it is damaged, stop it first"
                raise ClusterError(f"a cluster runs in {self.folder} already: {', '.join(running)}{damaged}")
        elif any(self.folder.iterdir()):
            raise ClusterError(f"{self.folder} is not empty and holds no cluster")
        if len(os.fsencode(self.folder)) > MAX_PATH or len(str(self.folder).split()) > 1:
            raise ClusterError(f"{self.folder} holds spaces or is longer than {MAX_PATH} bytes")
        self.folder.chmod(0o700)
        for name in ("etc", "munge", "log", "state", "spool", "run", "database", *(f"spool/{n}" for n in self.names)):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()
        while not self.ports or not all(port_is_free(port) for port in self.ports):
            base = 20000 + secrets.randbelow(12000)  # below those of outgoing connections
            self.ports = range(base, base + NODE + max(len(self.names), 4) + 1)
        # held until stop(), for other clusters not to choose the same ports before all daemons listen
        self._reservation = socket.create_server(("127.0.0.1", self.ports[0] + RESERVED))
        conf = slurm_conf(self.folder, self.ports[0], len(self.names), self.accounting)
        (self.folder / "etc/slurm.conf").write_text(conf)
        # real character devices: with other files the node is invalid or CUDA_VISIBLE_DEVICES stays unset
        (self.folder / "etc/gres.conf").write_text("Name=gpu File=/dev/null,/dev/zero\n")
        self.processes = {}

    def _start_accounting(self) -> None:
        """Start slurmdbd and a database that knows this user by its socket, without a password and without a port."""
        folder, (host, user, bind) = self.folder / "database", this_machine()
        settings = f"""
AuthType=auth/munge AuthInfo=socket={self.folder}/munge/socket SlurmUser={user} {bind}
DbdHost={host} DbdAddr=127.0.0.1 DbdPort={self.ports[0] + DBD} PidFile={self.folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql StorageHost=localhost StorageUser={user}
"""
        (self.folder / "etc/slurmdbd.conf").touch(0o600)
        (self.folder / "etc/slurmdbd.conf").write_text("\n".join(settings.split()) + "\n")
        common = ["--no-defaults", f"--datadir={folder / 'data'}", f"--user={user}", "--skip-name-resolve"]
        self._spawn("install", "mariadb-install-db", *common, "--skip-test-db", f"--auth-root-socket-user={user}")
        install = self._children[-1]
        self._wait("install", lambda: install.poll() == 0, 60)
        paths = [f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"]
        self._spawn("mariadbd", "mariadbd", *common, *paths, "--skip-networking", "--innodb-lock-wait-timeout=900")
        self._wait("mariadbd", (folder / "socket").exists, 30)
        self._spawn("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(folder / "socket"))
        self._wait("slurmdbd", lambda: not port_is_free(self.ports[0] + DBD), 60)
        self.command("sacctmgr", "-i", "add", "cluster", "lab", timeout=30)

    def _spawn(self, name: str, program: str, *args: str, **variables: str) -> None:
        """Start a process and remember it; what it prints goes to log/NAME.log."""
        if name in self.alive():
            raise ClusterError(f"{name} runs already")
        command, env, cwd = [program, *args], self._variables() | variables, self.folder / "run"
        with (self.folder / f"log/{name}.log").open("ab") as log:
            child = Popen(command, stdin=DEVNULL, stdout=log, stderr=log, env=env, cwd=cwd, start_new_session=True)
        self._children.append(child)
        self.processes[name] = [child.pid, process_start(child.pid) or 0]
        saved = {"nodes": len(self.names), "accounting": self.accounting, "ports": [self.ports.start, self.ports.stop]}
        (self.folder / "cluster.json").write_text(json.dumps(saved | {"processes": self.processes}, indent=1) + "\n")

    def _wait(self, name: str, ready: Callable[[], bool], timeout: float, *logs: str) -> None:
        """Wait until `ready`; ClusterError with the end of logs when the daemon dies or `timeout` seconds pass."""
        deadline = time.monotonic() + timeout
        while True:
            alive = name in self.alive()
            with contextlib.suppress(ClusterError):  # a client command that fails may work a moment later
                if ready():
                    return
            if not alive or time.monotonic() > deadline:
                report = [f"{name} was not ready within {timeout} s" if alive else f"{name} does not run"]
                for path in filter(Path.exists, [self.folder / f"log/{log}.log" for log in (name, *logs)]):
                    report += [f"{path}:", *path.read_text(errors="replace").splitlines()[-10:]]
                raise ClusterError("\n".join(report))
            time.sleep(0.1)

    def _kill_jobs(self, nodes: Iterable[str]) -> None:
        """End what is left of jobs on these nodes with SIGKILL: slurmstepd survives slurmd and ignores SIGTERM."""
        conf = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        wanted = {f"SLURMD_NODENAME={node}".encode() for node in nodes}
        for _ in range(2):  # slurmstepd may have started something meanwhile
            for path in Path("/proc").glob("[0-9]*/environ"):
                with contextlib.suppress(OSError):  # gone, or another user's
                    variables = set(path.read_bytes().split(b"\0"))
                    if conf in variables and wanted & variables and (pid := int(path.parent.name)) != os.getpid():
                        os.kill(pid, signal.SIGKILL)

    def _end(self, names: list[str], first: signal.Signals = signal.SIGTERM) -> None:
        """Send daemons a signal and wait until they are gone; SIGKILL after ten seconds."""
        for sign in (first, signal.SIGKILL):
            deadline = time.monotonic() + 10
            for name in set(names) & set(self.alive()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.processes[name][0], sign)
            while set(names) & set(self.alive()) and time.monotonic() < deadline:
                time.sleep(0.02)


def main() -> None:
    """Start a cluster that outlives this process, stop it, print its variables, or run one command on a fresh one."""
    parser = argparse.ArgumentParser(description="A Slurm cluster of four nodes on this machine.")
    parser.add_argument("action", choices=["up", "down", "env", "run"])
    parser.add_argument("command", nargs="*", help="for run, after --")
    parser.add_argument("--folder", type=Path, default=Path(f"/tmp/hargo-slurm-{os.geteuid()}"))
    parser.add_argument("--accounting", action="store_true", help="with slurmdbd and a database, for sacct")
    given = parser.parse_args()
    try:
        if given.action == "run":
            with Cluster(accounting=given.accounting) as fresh:
                status = run(given.command, env=fresh._variables()).returncode
            shutil.rmtree(fresh.folder)
            sys.exit(status)
        if given.action == "up":
            Cluster(given.folder, accounting=given.accounting).start()
        cluster = Cluster.load(given.folder)
        if given.action == "down":
            cluster.stop()
        else:
            print(f"export SLURM_CONF={shlex.quote(cluster.environment['SLURM_CONF'])}")
    except ClusterError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
