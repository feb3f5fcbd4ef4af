"""Sound result files that HDF5 does not just read: each gets its own sentence, or is read."""

import subprocess
import sys

import h5py
import numpy as np

from analysis.__main__ import main
from conftest import analyse
from result_files import KILLED, WITHOUT_LOCKS


def tables(good, env=None):
    """In a process of its own: HDF5 reads its variables when it is loaded."""
    return analyse("tables", good, "--output", good.with_suffix(".md"), **(env or {}))


def test_a_file_that_is_open_for_writing(good):
    with h5py.File(good, "a"):
        refused = tables(good)
        assert (refused.code, refused.err) == (
            2,
            f"analysis: {good}: cannot be read: it is open for writing in another program; wait "
            "until that has closed it\n",
        )
        done = tables(good, WITHOUT_LOCKS)
        assert (done.code, done.err) == (0, "")


def test_a_file_system_without_locks(good, without_locks):
    done = tables(good, without_locks)
    assert done.code == 0
    warning = f"analysis: warning: {good} is read without a lock, which its file system lacks: "
    assert done.err.count(warning) == done.err.count("\n") <= 1
    assert tables(good, without_locks | WITHOUT_LOCKS).err == ""
    refused = tables(good, without_locks | {"HDF5_USE_FILE_LOCKING": "TRUE"})
    assert refused.code == 2
    assert refused.err == (
        f"analysis: {good}: cannot be read: its file system has no locks; set "
        "HDF5_USE_FILE_LOCKING=FALSE\n"
    )


def test_a_file_whose_writer_was_killed(good, tmp_path, refused):
    latest = tmp_path / "latest.h5"
    with h5py.File(good) as old, h5py.File(latest, "w", libver="latest") as new:
        new.attrs.update(old.attrs)
        for name in old:
            old.copy(name, new)
    subprocess.run([sys.executable, "-c", KILLED, latest], check=True)
    line = ["tables", str(latest), "--output", str(tmp_path / "t.md")]
    assert "a program is writing it, or ended without closing it" in refused(*line)
    subprocess.run(["h5clear", "-s", latest], check=True)
    main(line)


def test_a_filter_that_is_not_installed(good, tmp_path, refused):
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk((1,))
    made.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))  # Zstandard
    with h5py.File(good, "a") as file:
        summary = file["summary"]
        del summary["step_median_s"]
        space = h5py.h5s.create_simple((1,))
        column = h5py.h5d.create(summary.id, b"step_median_s", h5py.h5t.NATIVE_DOUBLE, space, made)
        column.write_direct_chunk((0,), np.ones(1).tobytes())
    assert refused("tables", good, "--output", tmp_path / "t.md").startswith(
        f"{good}: cannot be read: a dataset is compressed with a filter that h5py lacks here; "
        "h5repack"
    )
