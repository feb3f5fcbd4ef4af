"""Files that claim data that they do not have, and names that no file has, are refused unread."""

import os
import signal
from functools import partial

import h5py
import pytest

from analysis.__main__ import main
from analysis.result_file import ResultError, opened
from conftest import analyse
from synthetic import claim, rename_link


def refusal(path):
    with pytest.raises(ResultError) as raised, opened(path):
        pass
    return str(raised.value).removeprefix(str(path)).strip()


@pytest.mark.parametrize("chunks", [None, (1, 1024)], ids=["contiguous", "chunked"])
@pytest.mark.parametrize("gib", [1, 8192])
@pytest.mark.parametrize("place", ["cases/case-000/samples/step", "cases/case-000/more"])
def test_a_dataset_that_was_never_written(good, place, gib, chunks):
    """The file is as large as a well compressed one of that size."""
    size = claim(good, place, gib << 30, chunks)
    os.truncate(good, good.stat().st_size + min(size // 1000, 1 << 32))
    assert refusal(good) == "is damaged: a dataset claims more data than the file holds"


def test_more_data_than_the_analysis_reads(good):
    with h5py.File(good, "r+") as file:
        for name in ("a", "b", "c"):
            data = file.create_dataset(name, (1 << 28,), "f8", chunks=(1 << 24,), compression=9)
            data.id.write_direct_chunk((0,), bytes(1 << 22))
    assert refusal(good) == "has more than 4 GiB of data"


@pytest.mark.parametrize("name", ["A/B", "/AB", "AB/"])
def test_a_link_with_a_slash_in_its_name(good, name):
    """The name comes before all others; an external link comes after it."""
    with h5py.File(good, "r+") as file:
        file["summary/elsewhere"] = h5py.ExternalLink("other.h5", "/x")
    rename_link(good, name)
    assert refusal(good) == "is damaged: a name has a '/'"


def test_a_group_that_is_in_itself(good, tmp_path):
    with h5py.File(good, "r+") as file:
        file["summary/circle"] = file["/"]
        file["cases/case-000/circle"] = file["cases"]
    main(["tables", str(good), "--output", str(tmp_path / "t.md")])
    assert "small" in (tmp_path / "t.md").read_text()


def test_a_parent_that_ignores_its_children(good, tmp_path):
    ignores = partial(signal.signal, signal.SIGCHLD, signal.SIG_IGN)
    done = analyse("tables", good, "--output", tmp_path / "t.md", preexec_fn=ignores)
    assert (done.code, done.err) == (0, "")
