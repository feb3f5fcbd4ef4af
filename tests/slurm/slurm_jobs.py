"""Submits jobs of tiny sizes to the Slurm cluster of the tests and reads their results."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import h5py

from conftest import PROGRAM, ROOT
from slurm_cluster import Cluster

JOBS = ROOT / "jobs"
LIVE = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED")


class Jobs:
    """Jobs of tiny sizes whose results are in one folder."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.results = folder / "results"
        self.site = {
            "PACELINE": str(PROGRAM),
            "PACELINE_RESULTS": str(self.results),
            "PACELINE_TINY": "1",
            "PACELINE_GPUS_PER_NODE": "2",
            "PACELINE_SRUN_OPTIONS": "--overlap --quiet",
        }

    def shell(self, *command: object, **site: str) -> str:
        done = self.cluster.run(*command, env=self.site | site)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def submit(self, job: str, *options: object, **site: str) -> str:
        return self.shell(JOBS / "submit.sh", job, *options, **site)

    def script(self, text: str, **site: str) -> str:
        """Submits a job file with this body."""
        file = self.results / "test.sbatch"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return self.shell(
            "sbatch", "--parsable", f"--output={self.results}/%x-%j.log", file,
            PACELINE_JOBS=str(JOBS), **site,
        )  # fmt: skip

    def state(self, job: str) -> str:
        """The distinct states of the job and its array tasks, for example "COMPLETED"."""
        shown = self.cluster.run("scontrol", "--oneliner", "show", "job", job).stdout
        return " ".join(sorted(set(re.findall(r"JobState=(\w+)", shown))))

    def wait(self, *jobs: str, state: str = "COMPLETED", seconds: float = 120) -> None:
        """Waits until the jobs have this state. Another final state fails only after 3 s, because
        a requeued job has one for a moment."""
        deadline = time.monotonic() + seconds
        for job in jobs:
            ended_since = None
            while (now := self.state(job)) != state:
                live = any(word in now for word in LIVE)
                ended_since = None if live else ended_since or time.monotonic()
                ended = ended_since is not None and time.monotonic() - ended_since > 3
                assert not ended, self.explain(job)
                assert time.monotonic() < deadline, self.explain(job)
                time.sleep(0.2)

    def wait_for(self, what: Callable[[], bool], job: str, seconds: float = 60) -> None:
        self.cluster.wait(lambda: what() or self.state(job) in ("FAILED", "TIMEOUT"), seconds)
        assert what(), self.explain(job)

    def explain(self, job: str) -> str:
        logs = [f"{log.name}:\n{log.read_text()[-2000:]}" for log in self.results.glob("*.log")]
        return f"job {job} is {self.state(job)}\n" + "\n".join(logs)

    def words(self, name: str) -> list[str]:
        """The events in NAME.state, in order: "started", "requeued", "finished", "ended=CODE"."""
        lines = (self.results / f"{name}.state").read_text().splitlines()
        return [line.split()[1] for line in lines]

    def status(self) -> tuple[int, str]:
        done = self.cluster.run(JOBS / "status.sh", self.results, env=self.site)
        return done.returncode, done.stdout


def cases(path: Path) -> dict[str, dict]:
    """{case id: attributes} of a result file. Asserts that the file is complete."""
    with h5py.File(path) as file:
        assert file.attrs["complete"]
        names = [text.decode() for text in file["summary/case"][:]]
        assert sorted(names) == sorted(file["cases"]), "summary rows and cases differ"
        return {name: dict(file["cases"][name].attrs) for name in names}
