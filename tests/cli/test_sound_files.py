"""Sound HDF5 files that HDF5 does not just read: each gets its own sentence, or is read."""

import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from conftest import made, shared_library
from result_files import KILLED, WITHOUT_LOCKS, rows, split_into_case_files

ONCE = ("--device", "cpu", "--threads", 1, "--warmup", 0, "--steps", 1, "--quiet")
TINY = ("model", "--size", "tiny", "--vocab", 100, "--context", 8, *ONCE)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """tokens.h5, and weights.h5 of TINY."""
    folder = tmp_path_factory.mktemp("made")
    with h5py.File(folder / "tokens.h5", "w") as file:
        file["tokens"] = np.arange(160).reshape(16, 10) % 100
    return made(folder / "out.h5", *TINY, "--dump", "weights.h5").parent


@pytest.fixture(params=["--tokens", "--load-weights"])
def given(inputs, tmp_path, request):
    """(option, file): an input in tmp_path."""
    name = {"--tokens": "tokens.h5", "--load-weights": "weights.h5"}[request.param]
    shutil.copy(inputs / name, tmp_path)
    return request.param, name


def test_a_file_that_is_open_for_writing(paceline, tmp_path, given):
    option, name = given
    with h5py.File(tmp_path / name, "a"):
        refused = paceline(*TINY, option, name, "--output", "out.h5")
        assert (refused.code, list(tmp_path.glob("out*"))) == (2, [])
        assert refused.message == (
            f"paceline: {option}: {name} cannot be read: it is open for writing in another "
            "program; wait until that has closed it"
        )
        done = paceline(*TINY, option, name, "--output", "out.h5", env=WITHOUT_LOCKS)
        assert (done.code, done.err) == (0, "")


def test_a_file_whose_writer_was_killed(paceline, tmp_path, given):
    """Its superblock says that it is open."""
    option, name = given
    with (
        h5py.File(tmp_path / name) as old,
        h5py.File(tmp_path / "new.h5", "w", libver="latest") as new,
    ):
        for member in old:
            old.copy(member, new)
    (tmp_path / "new.h5").rename(tmp_path / name)
    subprocess.run([sys.executable, "-c", KILLED, name], cwd=tmp_path, check=True)
    refused = paceline(*TINY, option, name)
    assert refused.code == 2
    assert "a program is writing it, or ended without closing it" in refused.message
    subprocess.run(["h5clear", "-s", name], cwd=tmp_path, check=True)
    assert paceline(*TINY, option, name).code == 0


def test_a_file_system_without_locks(paceline, tmp_path, inputs, without_locks):
    for name in ("tokens.h5", "weights.h5"):
        shutil.copy(inputs / name, tmp_path)
    line = (*TINY, "--tokens", "tokens.h5", "--load-weights", "weights.h5", "--output", "out.h5")
    done = paceline(*line, "--context", "4,8", ranks=2, env=without_locks)
    assert done.code == 0, done.err
    warnings = [text for text in done.err.splitlines() if text.startswith("warning: ")]
    assert [text.split()[1] for text in warnings] == ["out.h5.cases", "weights.h5", "tokens.h5"]
    split_into_case_files(tmp_path / "out.h5")
    merged = paceline("merge", "out.h5", env=without_locks)
    assert merged.code == 0, merged.err
    resumed = paceline(*line, "--context", "2,4", "--resume", ranks=2, env=without_locks)
    assert resumed.code == 0, resumed.err
    assert {row["context"] for row in rows(tmp_path / "out.h5")} == {2, 4, 8}
    assert [path.name for path in tmp_path.glob("*.damaged")] == []


def test_no_warning_of_locks_where_hdf5_shall_take_none(paceline, inputs, without_locks):
    done = paceline(*TINY, "--tokens", inputs / "tokens.h5", env=without_locks | WITHOUT_LOCKS)
    assert done.code == 0
    assert "tokens.h5" not in done.err


def test_a_filter_that_is_not_installed(paceline, tmp_path, inputs):
    with h5py.File(tmp_path / "lzf.h5", "w") as file:
        file.create_dataset("tokens", data=np.zeros((64, 64), int), compression="lzf")
    with h5py.File(inputs / "weights.h5") as old, h5py.File(tmp_path / "weights.h5", "w") as new:
        for name, weights in old["weights"].items():
            compression = "lzf" if weights.ndim == 2 else None
            new.create_dataset(name, data=weights[:], compression=compression)
    for option, name in (("--tokens", "lzf.h5"), ("--load-weights", "weights.h5")):
        refused = paceline(*TINY, option, name)
        assert refused.code == 2
        assert f"{option}: {name} cannot be read: " in refused.message
        assert (
            "compressed with filter 32000 (lzf), which the HDF5 library here lacks" in refused.err
        )


def test_values_in_other_files(paceline, tmp_path, inputs):
    """HDF5 reads 0 for a source that is missing."""
    layout = h5py.VirtualLayout((16, 10), int)
    layout[:] = h5py.VirtualSource("moved.h5", "tokens", (16, 10), int)
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("tokens", layout)
    refused = paceline(*TINY, "--tokens", "virtual.h5")
    assert refused.code == 2
    assert "has its values in other files; copy them into it" in refused.message


def test_data_that_expand_many_times(paceline, tmp_path):
    """2 GB of tokens in 80 KB: only the rows that are needed are read."""
    with h5py.File(tmp_path / "big.h5", "w") as file:
        tokens = file.create_dataset(
            "tokens", (1_000_000, 1000), "u2", chunks=(10_000, 1000), compression="gzip"
        )
        tokens[:10_000] = np.tile(np.arange(1000) % 100, (10_000, 1))
    done = paceline(*TINY, "--tokens", "big.h5", "--output", "out.h5")
    assert done.code == 0, done.err


CRASH = """
#include <signal.h>
int H5Dread(void) { return raise(SIGNAL); }
"""


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE"])
def test_a_file_on_which_hdf5_crashes_is_named(paceline, tmp_path, given, signal):
    option, name = given
    library = shared_library(tmp_path, CRASH, f"-DSIGNAL={signal}")
    done = paceline(*TINY, option, name, env={"LD_PRELOAD": str(library)})
    assert done.code == 2
    assert done.err == f"paceline: {option}: {name} crashes HDF5: it is damaged\n"
