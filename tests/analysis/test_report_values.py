"""Figures of the report that an audit against the assignment asked for."""

import lzma

import h5py

from analysis import snapshot
from analysis.report import accounting, comparisons, memory, published
from analysis.report.facts import cases
from analysis.results import load
from conftest import ROOT
from plan_output import plan

REFERENCE = ROOT / "results/reference"


def own(*names):
    return [one for name in names for one in load([REFERENCE / f"{name}-h200.h5.xz"])]


def test_the_warm_up_is_of_a_file_that_measured_from_cold():
    """Both files vary the size; the profiled one comes first."""
    found = cases(own("model-profile-sizes", "model-warmup"))
    (table, *_) = published.tables(comparisons.warmup(found))
    forward = {tuple(row[:2]): row[5] for row in table.rows}
    assert forward["medium", "0"] == "20.59 ± 28"
    assert forward["medium", "1"] == "11.86 ± 0.027"
    (table, *_) = published.tables(comparisons.warmup(cases(own("model-profile-sizes"))))
    assert {row[5] for row in table.rows} == {"–"}


def test_memory_before_backward_of_eager_and_compiled_cases():
    found = cases(own("model-compile-512"))
    tables = {table.name: table for table in published.tables(comparisons.memory(found))}
    rows = tables["published-memory-write-up-2"].rows
    assert [(row[2], row[3], row[7]) for row in rows] == [
        ("forward", "before backward, eager", "0.9704"),
        ("forward", "before backward, compiled", "0.9705"),
        ("train-step", "before backward, eager", "1.396"),
        ("train-step", "before backward, compiled", "1,395.9"),
    ]


def test_the_largest_block_is_of_forward():
    (told,) = [line for line in memory.section(own("model-memory")).sentences
               if "largest block" in line]  # fmt: skip
    assert "2.7b, context 512" in told
    block = "160 MiB: gate and up projections of the feed-forward network (scope forward/"
    assert f"the largest block of activations of forward is {block}" in told


def test_communication_accounting_is_that_of_plan(paceline):
    (bound,) = plan(paceline, "--preset", "xxl")["compute_bound"]
    told = " ".join(accounting.section([]).sentences)
    for kind in ("overlapped", "serial"):
        per_device, all_tokens = bound[f"{kind}_tokens_per_device"], bound[f"{kind}_tokens"]
        assert f"{per_device:.0f} tokens per device ({all_tokens:,.0f} in all)" in told
    assert "38 TPUs of 95 GB" in told


def test_a_snapshot_without_whole_arrays(tmp_path):
    """With fsdp memory/parameters is empty."""
    plain = tmp_path / "plain.h5"
    packed = REFERENCE / "model-memory-timeline-h200.h5.xz"
    plain.write_bytes(lzma.decompress(packed.read_bytes()))
    with h5py.File(plain, "r+") as file:
        for case in file["cases"].values():
            if "memory/parameters" in case:
                del case["memory/parameters"]
            case.create_group("memory/parameters")
    written = snapshot.write([plain], tmp_path / "s")
    assert len(written) == 3
