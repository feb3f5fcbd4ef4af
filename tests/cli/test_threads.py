"""Threads, cores and kernels: the program uses what it is granted, records it and warns of less."""

import json
import os
import resource
from pathlib import Path

import h5py
import pytest

from conftest import PROGRAM, command, run_line, shared_library
from result_files import columns_of, summary

CPU = ("--device", "cpu", "--quiet", "--output", "out.h5")
MODEL = ("model", "--size", "tiny", "--vocab", 64, "--context", 16, "--warmup", 0, "--steps", 2)
MODEL += CPU
OPENBLAS = "OPENBLAS_CORETYPE"


def threads_in(folder):
    """Those of the case and of each rank."""
    with h5py.File(folder / "out.h5") as f:
        return summary(folder / "out.h5")["threads"], columns_of(f["ranks"])["threads"]


@pytest.mark.parametrize(
    ("variables", "asked", "granted"),
    [
        ({"OMP_THREAD_LIMIT": "1"}, 2, 1),
        ({"OMP_THREAD_LIMIT": "2"}, 5, 2),
        ({"OMP_MAX_ACTIVE_LEVELS": "0"}, 2, 1),
        ({"OMP_DYNAMIC": "true"}, 3, 3),
        ({"OMP_NUM_THREADS": "1"}, 2, 2),
        ({"OPENBLAS_NUM_THREADS": "1"}, 2, 2),
        ({"OMP_PROC_BIND": "true"}, 2, 2),
    ],
)
def test_as_many_threads_as_openmp_grants(paceline, tmp_path, variables, asked, granted):
    """OpenBLAS's threads wait forever for a thread that was not granted."""
    done = paceline(*MODEL, "--threads", asked, env=variables)
    assert done.code == 0, done.err
    assert threads_in(tmp_path) == ([granted], [granted])


@pytest.mark.parametrize("ranks", [0, 2])
def test_threads_that_openmp_binds_have_all_cores(paceline, ranks):
    """It binds the main thread to one core before the program starts."""

    def threads(**env):
        done = paceline("info", "--json", "--device", "cpu", ranks=ranks, env=env)
        return [rank["threads"] for rank in json.loads(done.out)["ranks"]]

    unbound = threads()
    for bind in ("true", "close", "spread"):
        assert threads(OMP_PROC_BIND=bind) == unbound


def test_all_ranks_have_the_threads_of_the_rank_with_the_fewest(tmp_path):
    mine = command(1, *MODEL, "--threads", 2)
    few = ["env", "OMP_THREAD_LIMIT=1", *mine[mine.index(str(PROGRAM)) :]]
    assert run_line(tmp_path, [*mine, ":", "-np", "1", *few]).code == 0
    assert threads_in(tmp_path) == ([1], [1, 1])


def limited_to(kind, most):
    return lambda: resource.setrlimit(kind, (most, most))


@pytest.mark.parametrize("command_", [MODEL, ("info",), ("collectives", "--bytes", 8, *CPU)])
def test_threads_that_the_system_refuses(tmp_path, command_):
    """OpenMP would end the program with 1, which is no code of ours."""
    too_little = limited_to(resource.RLIMIT_AS, 4 << 30)  # for the stacks
    done = run_line(tmp_path, command(0, *command_, "--threads", 4096), too_little)
    assert done.code == 3, done.err
    (line,) = done.err.splitlines()
    assert line.startswith("paceline: --threads: a rank needs ")
    assert "ulimit -u" in line


@pytest.fixture
def control_group():
    """control_group(controller): a new one of version 1, as its folder and what joins it."""
    made = []

    def make(controller):
        folder = Path("/sys/fs/cgroup", controller, f"paceline-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            pytest.skip(f"{controller}: no control groups of version 1, or not ours to make")
        made.append(folder)
        return folder, lambda: (folder / "cgroup.procs").write_text(str(os.getpid()))

    yield make
    for folder in made:
        folder.rmdir()


def test_processes_that_a_control_group_refuses(tmp_path, control_group):
    group, join = control_group("pids")
    (group / "pids.max").write_text("20")
    done = run_line(tmp_path, command(0, *MODEL, "--threads", 64), join)
    assert done.code == 3, done.err
    assert "pids.max" in done.err
    done = run_line(tmp_path, command(0, *MODEL, "--threads", 8), join)
    assert done.code == 0, done.err


def test_threads_follow_a_cpu_quota(tmp_path, control_group):
    group, join = control_group("cpu")
    (group / "cpu.cfs_period_us").write_text("100000")
    (group / "cpu.cfs_quota_us").write_text("90000")
    done = run_line(tmp_path, command(0, *MODEL), join)
    assert done.code == 0, done.err
    assert threads_in(tmp_path) == ([1], [1])
    assert "warning: cpu_quota: " in done.out
    with h5py.File(tmp_path / "out.h5") as f:
        (case,) = f["cases"].values()
        assert "a CPU quota allows 0.9 of " in case.attrs["warnings"]


needs_avx = pytest.mark.skipif(
    " avx " not in Path("/proc/cpuinfo").read_text(), reason="OpenBLAS has no older kernels here"
)


@pytest.fixture
def openblas(paceline):
    if "DYNAMIC_ARCH" not in json.loads(paceline("info", "--json").out)["environment"]["blas"]:
        pytest.skip("a BLAS without a choice of kernels")


@needs_avx
@pytest.mark.usefixtures("openblas")
def test_kernels_older_than_the_processor_are_told(paceline, tmp_path):
    older = {OPENBLAS: "Prescott"}  # the user's choice is obeyed
    warning = "OpenBLAS computes with its kernels for Prescott (SSE3), but the processor has "
    done = paceline("info", env=older)
    assert f"blas_warning             {warning}" in done.out
    done = paceline(*MODEL, "--threads", 1, env=older)
    assert f"warning: {warning}" in done.err
    assert "warning: old_blas_kernels: " in done.out
    with h5py.File(tmp_path / "out.h5") as f:
        (case,) = f["cases"].values()
        assert warning in case.attrs["warnings"]
        assert f["environment"].attrs["blas_warning"].startswith(warning)
        assert "Prescott" in f["environment"].attrs["blas"]


# As OpenBLAS on a processor that it does not know.
UNKNOWING = """
#include <stdlib.h>
char* openblas_get_corename(void) {
  char* chosen = getenv("OPENBLAS_CORETYPE");
  return chosen ? chosen : "Prescott";
}
"""


@needs_avx
@pytest.mark.usefixtures("openblas")
@pytest.mark.parametrize("ranks", [0, 2])
def test_the_kernels_are_those_of_the_processor(paceline, tmp_path, ranks):
    library = shared_library(tmp_path, UNKNOWING)
    preloaded = f"{library}:{os.environ.get('LD_PRELOAD', '')}"
    done = paceline("info", "--json", ranks=ranks, env={"LD_PRELOAD": preloaded})
    assert (done.code, done.err) == (0, "")
    environment = json.loads(done.out)["environment"]
    assert environment[OPENBLAS] in ("Sandybridge", "Haswell", "SkylakeX")
    assert environment[OPENBLAS] in environment["blas"]
    assert "blas_warning" not in environment
