"""The job files of jobs/ in a real Slurm cluster, with tiny sizes, and what runs in a step of srun
without the other tasks, or without PMIx: one module, since a machine holds one cluster."""

import re
import subprocess
from pathlib import Path

import h5py
import pytest

from conftest import PROGRAM, Run
from slurm_jobs import JOBS, Jobs, cases

CONTEXTS = [16, 17, 18, 19, 20, 21, 22, 23]
# Eight cases of at least two seconds each on any machine (--min-time).
SWEEP = f"""#!/usr/bin/env bash
#SBATCH --job-name=sweep --nodes=1 --ntasks-per-node=2 --time=10 --requeue --open-mode=append
. "$PACELINE_JOBS/lib.sh"
measure model --size tiny --batch-size 1 --context {",".join(map(str, CONTEXTS))} --min-time 2
"""
LONG = {"PACELINE_TINY": ""}
RANK_0 = 'test $SLURM_PROCID != 0 || "$@"'  # as in a shell: the other tasks never start paceline
STEPS = [(1, '"$@"'), (4, '"$@"'), (4, RANK_0)]  # (tasks, script of each)
TINY = ("--size", "tiny", "--context", 8, "--device", "cpu", "--warmup", 0, "--steps", 1)


def measured(path: Path) -> list[int]:
    return sorted(int(case["context"]) for case in cases(path).values())


@pytest.mark.long
def test_all_sweeps_run_to_completion(jobs: Jobs):
    printed = jobs.shell(JOBS / "all.sh")
    assert str(jobs.results) in printed
    queued = jobs.cluster.run("squeue", "--noheader", "--format=%i %j").stdout.split("\n")
    analysis = next(line.split()[0] for line in queued if line.endswith("analysis"))
    nodes = jobs.submit("scaling_nodes", "--nodes=2")
    jobs.wait(nodes, analysis, seconds=300)

    code, table = jobs.status()
    assert code == 0, table
    wanted = {path.stem for path in JOBS.glob("*.sbatch")} - {"analysis"}
    shown = {line.split()[0].split("-")[0] for line in table.splitlines()[1:]}
    assert shown == wanted
    assert all(line.split()[1] == "finished" for line in table.splitlines()[1:]), table
    files = sorted(jobs.results.glob("*.h5"))
    assert len(files) == 5 + 5 + 5 + 5 + 11 + 2 + 2  # four arrays, single sweeps, two scaling jobs
    for path in files:
        assert cases(path)
    for sweep in {path.stem.split("-")[0] for path in files}:
        assert (jobs.results / f"{sweep}.md").stat().st_size > 0
        assert (jobs.results / f"{sweep}.svg").stat().st_size > 0
    assert (jobs.results.parent / "results.tar.gz").stat().st_size > 0
    with h5py.File(jobs.results / "scaling_nodes-2.h5") as file:
        assert list(file["ranks/rank"]) == [0, 1, 2, 3]
        assert sorted(file["ranks/local_rank"]) == [0, 0, 1, 1]


def test_a_refused_submission_does_not_stop_the_others(jobs: Jobs):
    """On nodes with one GPU, jobs that need two are refused; jobs that can use one run."""
    done = jobs.cluster.run(JOBS / "all.sh", env=jobs.site | {"PACELINE_GPUS_PER_NODE": "1"})
    assert done.returncode == 1
    assert "ddp needs 2 GPUs of a node, which has 1 here" in done.stderr
    # squeue leaves out what has ended: the check of the machine takes a second.
    shown = jobs.cluster.run("scontrol", "--oneliner", "show", "job").stdout
    folder = re.escape(str(jobs.results))
    names = set(re.findall(rf"JobName=(\w+) .* StdOut={folder}/", shown))
    assert {"machine", "sizes", "collectives", "scaling", "analysis"} <= names
    assert not {"ddp", "zero"} & names


def test_an_array_task_past_the_end_is_refused(jobs: Jobs):
    job = jobs.submit("sizes", "--array=5")
    jobs.wait(job, state="FAILED")
    log = (jobs.results / f"sizes-{job}_5.log").read_text()
    assert "sizes: task 5 is past the end: there are rows 0 to 4" in log
    assert not list(jobs.results.glob("*.h5"))


# Slurm checks time limits every 30 s; the sweep takes longer than that.
@pytest.mark.long
def test_requeue_at_the_time_limit_neither_loses_nor_repeats_cases(jobs: Jobs):
    text = SWEEP.replace("--time=10", "--time=1 --signal=B:USR1@40")
    text = text.replace("--min-time 2", "--min-time 8")
    text = text.replace("--ntasks-per-node=2", "--ntasks-per-node=1")
    job = jobs.script(text, **LONG)
    jobs.wait(job, seconds=900)
    words = jobs.words("sweep")
    assert words[-1] == "finished"
    assert words[:3] == ["started", "requeued", "started"]
    of_cases = cases(jobs.results / "sweep.h5")
    assert sorted(int(case["context"]) for case in of_cases.values()) == CONTEXTS
    restarts = {case["restart"] for case in of_cases.values()}
    assert len(restarts) > 1, "one start measured all cases"
    assert {case["slurm_job_id"] for case in of_cases.values()} == {job}
    assert jobs.status()[0] == 0


def test_the_number_of_restarts_is_limited(jobs: Jobs):
    job = jobs.script(SWEEP, PACELINE_RESTARTS="0", **LONG)
    jobs.wait_for(lambda: list(jobs.results.glob("sweep.h5.cases/*.h5")) != [], job)
    jobs.shell("scancel", "--signal=USR1", "--batch", job)
    jobs.wait(job, state="FAILED")
    assert jobs.words("sweep") == ["started", "ended=6"]
    assert "out of time after 0 restarts" in jobs.explain(job)


def test_scancel_keeps_finished_cases_and_does_not_requeue(jobs: Jobs):
    job = jobs.script(SWEEP, **LONG)
    jobs.wait_for(lambda: list(jobs.results.glob("sweep.h5.cases/*.h5")) != [], job)
    jobs.shell("scancel", job)
    jobs.wait(job, state="CANCELLED")
    jobs.cluster.wait(lambda: (jobs.results / "sweep.h5").exists())
    with h5py.File(jobs.results / "sweep.h5") as file:
        assert not file.attrs["complete"]
        assert 1 <= len(file["cases"]) < len(CONTEXTS)
    jobs.cluster.wait(lambda: jobs.words("sweep") == ["started", "ended=6"])
    code, table = jobs.status()
    assert code == 1
    assert " stopped " in table


@pytest.mark.long
def test_a_dead_node_loses_no_case(jobs: Jobs):
    job = jobs.script(SWEEP, **LONG)
    jobs.wait_for(lambda: list(jobs.results.glob("sweep.h5.cases/*.h5")) != [], job)
    node = jobs.cluster.run("squeue", "--noheader", "--job", job, "--format=%N").stdout.strip()
    jobs.cluster.kill_node(node)
    try:
        jobs.wait(job, seconds=150)
    finally:
        jobs.cluster.revive_node(node)
    words = jobs.words("sweep")
    assert words == ["started", "started", "finished"]
    assert measured(jobs.results / "sweep.h5") == CONTEXTS


@pytest.mark.parametrize(
    "experiment",
    ["ddp", *(pytest.param(one, marks=pytest.mark.long) for one in ("collectives", "zero"))],
)
def test_two_ranks_on_each_of_two_nodes(jobs: Jobs, experiment: str):
    options = {
        "ddp": "ddp --sync overlap,bucketed --verify 2",
        "zero": "zero --shard none,broadcast,zero1 --verify 2",
        "collectives": "collectives --op all_reduce,all_gather,broadcast --ranks 2,3,4",
    }[experiment]
    job = jobs.script(
        "#!/usr/bin/env bash\n"
        "#SBATCH --job-name=pair --nodes=2 --ntasks-per-node=2 --time=5\n"
        f'. "$PACELINE_JOBS/lib.sh"\nmeasure {options}\n'
    )
    jobs.wait(job)
    assert cases(jobs.results / "pair.h5")
    with h5py.File(jobs.results / "pair.h5") as file:
        assert set(file["summary/status"][:]) == {b"ok"}
        places = zip(file["ranks/host"][:], file["ranks/local_rank"][:], strict=True)
        assert sorted(places) == [(b"n0", 0), (b"n0", 1), (b"n1", 0), (b"n1", 1)]


def test_mpirun_within_a_job(jobs: Jobs):
    job = jobs.script(
        "#!/usr/bin/env bash\n#SBATCH --job-name=own --nodes=1 --ntasks=2\n"
        f'mpirun {PROGRAM} model --size tiny --steps 2 --output "$PACELINE_RESULTS/own.h5"\n'
    )
    jobs.wait(job)
    with h5py.File(jobs.results / "own.h5") as file:
        assert list(file["ranks/rank"]) == [0, 1]


# Without PMIx, Open MPI 5 makes every task a launch of one rank.
@pytest.mark.parametrize("plugin", ["none", "pmi2"])
def test_tasks_in_separate_mpi_worlds_are_refused(jobs: Jobs, plugin: str):
    hidden = [f"-uSLURM_{name}" for name in ("JOB_ID", "JOBID", "PROCID", "NTASKS", "STEP_ID",
              "STEPID", "NODELIST", "LOCALID")]  # fmt: skip
    done = jobs.cluster.run(
        "srun", "--quiet", f"--mpi={plugin}", "--ntasks=2", "env", *hidden,
        PROGRAM, "model", "--size", "tiny", cwd=jobs.results.parent,
    )  # fmt: skip
    assert done.returncode == 3
    assert "srun started 2 tasks, of which MPI sees 1: use srun --mpi=pmix" in done.stderr
    assert not (jobs.results.parent / "results").exists()


@pytest.fixture
def srun(cluster, tmp_path):
    """srun(tasks, mpi, script, *words): runs it on a node."""

    def run(tasks, mpi, script, *words):
        step = ("srun", "--nodes=1", f"--ntasks={tasks}", f"--mpi={mpi}", "sh", "-c", script, "sh")
        done = cluster.run(*step, PROGRAM, *words, cwd=tmp_path)
        return Run(done.returncode, done.stdout, done.stderr)

    return run


@pytest.mark.parametrize(
    ("mpi", "words"),
    [("pmix", ("--help",)), ("none", ("list",)), ("none", ("plan", "--size", "xl"))],
)
def test_what_measures_nothing_needs_no_other_task(srun, mpi, words):
    alone = subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    for tasks, script in STEPS:
        done = srun(tasks, mpi, script, *words)
        assert (done.code, done.out, done.err) == (0, alone, "")


@pytest.mark.parametrize("mpi", ["pmix", "none"])
def test_a_refusal_needs_no_other_task(srun, mpi):
    for tasks, script in STEPS:
        done = srun(tasks, mpi, script, "model", "--bad")
        assert done.code == 2
        assert "--bad: unknown option" in done.message


def test_a_single_task_without_pmix_measures(srun):
    for words in (("info", "--device", "cpu"), ("model", *TINY, "--output", "out.h5")):
        done = srun(1, "none", '"$@"', *words)
        assert done.code == 0, done.err


def test_tasks_without_pmix_that_would_communicate_are_refused(srun):
    for tasks, words in ((1, ("ddp", *TINY)), (2, ("model", *TINY)), (2, ("info",))):
        done = srun(tasks, "none", '"$@"', *words)
        assert done.code == 3
        assert "--mpi=pmix" in done.message
