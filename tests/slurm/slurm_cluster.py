"""A real Slurm on this machine: munged, slurmctld and two slurmd with fake GPUs.

python3 tests/slurm/slurm_cluster.py COMMAND... starts a cluster and runs a command in it.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
NODES = ("n0", "n1")
CPUS = 8  # that each node claims to have; both nodes share the cores of the machine
GPUS = 8

# Timeouts are short, so that requeue, kills and dead nodes happen within a test.
CONFIGURATION = """
ClusterName=paceline
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
# A requeued job starts only after its credential has expired.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
# PMIx keeps a folder per job in TmpFS: two nodes on one machine need separate ones.
TmpFS={folder}/tmp.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
GresTypes=gpu
MpiDefault=pmix
ReturnToService=2
KillWait=5
SlurmdTimeout=10
MinJobAge=3600
JobRequeue=1
PriorityType=priority/basic
NodeName=n[0-1] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} \
Gres=gpu:{gpus} RealMemory=4000
PartitionName=all Nodes=n[0-1] Default=YES MaxTime=60 OverSubscribe=YES
"""


def missing() -> str:
    """Why this machine cannot run the cluster; empty if it can."""
    if os.geteuid() != 0:
        return "the Slurm cluster of the tests needs root, for device files and users of jobs"
    lacking = [name for name in DAEMONS if shutil.which(name, path=PATH) is None]
    return f"Slurm is not installed: no {', '.join(lacking)}" if lacking else ""


def free_ports(count: int) -> int:
    """The first of `count` consecutive free ports."""
    for first in range(17000, 30000, count):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise RuntimeError("no free ports")


def pids() -> list[int]:
    return [int(process.name) for process in Path("/proc").glob("[0-9]*")]


def os_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # the process has ended
        return ""


def environment_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


class DaemonsDoNotRunError(Exception):
    """Slurm's daemons do not start on this machine; the message has their output."""


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        first = free_ports(3)
        user = subprocess.check_output(["id", "-un"], text=True).strip()
        (folder / "state").mkdir(parents=True)
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o600)
        folder.chmod(0o755)
        for node in NODES:
            (folder / f"tmp.{node}").mkdir()
        self.gpu_files()
        self.configuration = folder / "slurm.conf"
        self.configuration.write_text(
            CONFIGURATION.format(
                host=socket.gethostname(), user=user, folder=folder, controller=first,
                first=first + 1, last=first + 2, cpus=CPUS, gpus=GPUS,
            )
        )  # fmt: skip
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SLURM_")},
            "PATH": PATH,
            "SLURM_CONF": str(self.configuration),
            # Without shared memory: Open MPI would see both nodes as the same host.
            "OMPI_MCA_btl": "tcp,self",
        }
        self.daemons: dict[str, subprocess.Popen] = {}

    def gpu_files(self) -> None:
        files = [self.folder / f"nvidia{i}" for i in range(GPUS)]
        for file in files:
            os.mknod(file, 0o666 | 0o020000, os.makedev(1, 3))  # the device of /dev/null
        lines = [f"NodeName={n} Name=gpu File={self.folder}/nvidia[0-{GPUS - 1}]" for n in NODES]
        (self.folder / "gres.conf").write_text("\n".join(lines) + "\n")

    def start_daemon(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                command, env=self.environment, stdout=out, stderr=out, start_new_session=True
            )

    def start_node(self, node: str) -> None:
        self.start_daemon(node, "slurmd", "-D", "-N", node)

    def start(self) -> None:
        files = [f"--{f}-file={self.folder}/munge.{f}" for f in ("key", "pid", "seed", "log")]
        self.start_daemon(
            "munged", "munged", "--foreground", "--force", *files,
            f"--socket={self.folder}/munge.socket",
        )  # fmt: skip
        self.start_daemon("slurmctld", "slurmctld", "-D", "-i")
        for node in NODES:
            self.start_node(node)
        deadline = time.monotonic() + 60
        while self.states() != {"idle"}:
            if time.monotonic() > deadline:
                raise DaemonsDoNotRunError(self.log())
            time.sleep(0.1)

    def states(self) -> set[str]:
        done = self.run("sinfo", "-h", "-N", "-o", "%t")
        return set(done.stdout.split())

    def kill_node(self, node: str) -> None:
        """Kills slurmd, its step daemons and their tasks, as a power failure would."""
        for pid in [self.daemons[node].pid, *self.step_daemons(node), *self.tasks(node)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.daemons[node].wait()

    def step_daemons(self, node: str) -> list[int]:
        """Pids of the processes that have the log of slurmd open: slurmd and its step daemons."""
        log = str(self.folder / f"slurmd.{node}.log")
        return [p for p in pids() if log in {os_link(f) for f in Path(f"/proc/{p}/fd").glob("*")}]

    def tasks(self, node: str) -> list[int]:
        wanted = {f"SLURMD_NODENAME={node}", f"SLURM_CONF={self.configuration}"}
        return [p for p in pids() if wanted <= set(environment_of(p))]

    def revive_node(self, node: str) -> None:
        self.start_node(node)
        self.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.wait(lambda: "down" not in "".join(self.states()))

    def run(self, *command: object, **more: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(word) for word in command],
            env={**self.environment, **more.pop("env", {})},
            capture_output=True, text=True, check=False, timeout=60, **more,
        )  # fmt: skip

    def wait(self, what, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"not reached within {seconds} s: " + self.log()
            time.sleep(0.1)

    def log(self) -> str:
        return "".join(f"\n== {f.name}\n{f.read_text()[-1500:]}" for f in self.folder.glob("*.out"))

    def stop(self) -> None:
        self.run("scancel", "--quiet", "--user", str(os.getuid()))
        for node in NODES:
            if node in self.daemons:
                self.kill_node(node)
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    # A socket path is limited to 107 characters, which paths in pytest's folders exceed.
    folder = Path(tempfile.mkdtemp(prefix="slurm."))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with running() as cluster:
        sys.exit(subprocess.run(sys.argv[1:], env=cluster.environment, check=False).returncode)
