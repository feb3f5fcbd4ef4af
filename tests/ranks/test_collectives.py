"""`collectives` under mpirun: every operation is checked on every rank; contents of the file."""

import json
import sys

import h5py
import numpy as np
import pytest

from conftest import PROGRAM, ROOT, gpu_count, run_line
from result_files import columns_of, rows, summary

CPU = ("collectives", "--device", "cpu", "--threads", 1, "--quiet", "--output", "out.h5")
CPU += ("--warmup", 1)
RUN = (*CPU, "--memory-limit", "20MB")  # the links are measured with short messages
OPS = "all_reduce,reduce_scatter,all_gather,broadcast,reduce,all_to_all,send_recv"
REDUCTIONS = "sum,prod,min,max,avg"
EVERY = ("--op", OPS, "--in-place", "no,yes", "--redop")


@pytest.mark.parametrize(
    ("ranks", "redops", "dtypes", "sizes"),
    [
        (1, "sum", "float32", "24"),
        (3, "sum,avg", "bfloat16", "0,24,100008"),
        (3, REDUCTIONS, "float16,int32", "8KB"),
        pytest.param(3, REDUCTIONS, "float32,float64", "0,24,100008", marks=pytest.mark.long),
    ],
)
def test_every_operation_and_reduction_is_right(paceline, tmp_path, ranks, redops, dtypes, sizes):
    """Sizes of 0 and of odd element counts."""
    done = paceline(
        *(*RUN, "--steps", 1, "--bytes", sizes, *EVERY, redops, "--dtype", dtypes),
        *("--ranks", ranks),
        ranks=ranks,
    )
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    assert set(table["status"]) == {"ok"}
    assert set(table["wrong_elements"]) == {0}
    # 3 operations reduce, in 2 placements; all_gather x 2; broadcast, all_to_all, send_recv once.
    reducing = 3 * 2 * len(redops.split(","))
    of_each = len(sizes.split(",")) * len(dtypes.split(","))
    assert len(table["case"]) == of_each * (reducing + 2 + 3)


def test_the_record(paceline, tmp_path):
    done = paceline(
        *(*RUN, "--steps", 3, "--op", "all_reduce,all_gather", "--bytes", "1KB,1MB"),
        *("--ranks", "2,3", "--fit", "--cadence", "barrier,back-to-back", "--cache", "warm"),
        ranks=3,
    )
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    assert len(table["case"]) == 2 * 2 * 2 * 2
    with h5py.File(tmp_path / "out.h5") as f:
        for row, name in enumerate(table["case"]):
            case = f["cases"][name]
            n = case.attrs["ranks"]
            seconds = case["samples/time"][:]
            assert seconds.shape == (n, 3)  # ranks of the case
            assert case["samples/host"].shape == (n, 3)
            bytes_ = table["message_bytes"][row]
            assert bytes_ == table["bytes"][row] // (4 * n) * 4 * n
            algbw = bytes_ / np.median(seconds.max(axis=0))
            assert table["algbw_bytes_per_s"][row] == pytest.approx(algbw)
            gather = case.attrs["op"] == "all_gather"
            factor = (1 if gather else 2) * (n - 1) / n
            assert table["busbw_bytes_per_s"][row] == pytest.approx(algbw * factor)
            assert table["busbw_factor"][row] == ("(n - 1) / n" if gather else "2 (n - 1) / n")
            assert table["link_ceiling_bytes_per_s"][row] > 0
            assert set(case["check/wrong"][:]) == {0}
            assert set(case["check/rank"][:]) == set(range(n))
        fit = f["fit"]
        assert len(fit["latency_s"]) == 2 * 2 * 2
        assert (fit["latency_s"][:] >= 0).all()
        assert (fit["bandwidth_bytes_per_s"][:] > 0).all()
        fitted = columns_of(fit)
        shared = [name for name in fitted if name in table]
        assert {"op", "redop", "in_place", "ranks"} < set(shared)
        keys = [set(zip(*(t[name] for name in shared), strict=True)) for t in (fitted, table)]
        assert keys[0] == keys[1]
        residuals = f["fit_residuals"]
        assert len(residuals["time_s"]) == len(table["case"])
        assert sorted(residuals["time_s"][:]) == sorted(table["time_median_s"])
        error = residuals["fitted_s"][:] / residuals["time_s"][:] - 1
        assert residuals["relative_error"][:] == pytest.approx(error)
    assert "fit:" in done.out


def test_a_preset_s_missing_parts_are_skipped_rows(paceline, tmp_path):
    done = paceline(
        *(*RUN, "--preset", "single-node", "--bytes", "1KB", "--steps", 1, "--json"), ranks=2
    )
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    status = dict(
        zip(zip(table["backend"], table["ranks"], strict=True), table["status"], strict=True)
    )
    assert status["mpi", 2] == "ok"
    assert status["mpi", 4] == status["mpi", 6] == "skipped"
    assert [status["nccl", n] for n in (2, 4, 6)] == ["skipped"] * 3
    reasons = dict(zip(table["ranks"], table["reason"], strict=True))
    assert "this launch has 2" in reasons[6]
    by_name = ("--backend", "mpi", "--preset", "single-node", "--bytes", "1KB", "--steps", 1)
    assert paceline(*RUN, *by_name, "--force", ranks=2).code == 0
    assert summary(tmp_path / "out.h5")["status"] == ["ok", "skipped", "skipped"]


@pytest.mark.skipif(gpu_count() > 0, reason="of machines without a GPU")
def test_a_missing_backend_asked_for_by_name_is_the_environment_s_fault(paceline):
    done = paceline("collectives", "--backend", "nccl", "--bytes", "1KB")
    assert done.code == 3
    assert "--backend" in done.message
    assert "rank 0: " in done.message


@pytest.mark.skipif(gpu_count() < 2, reason="fewer than two GPUs here")
def test_both_backends_in_one_launch(paceline, tmp_path):
    """Three ranks on two GPUs or more: NCCL runs on the ranks that have a GPU of their own."""
    ranks = gpu_count() + 1
    done = paceline(
        *("collectives", "--quiet", "--output", "out.h5", "--warmup", 1, "--steps", 2),
        *("--op", OPS, "--redop", REDUCTIONS, "--in-place", "no,yes", "--bytes", "24,100008"),
        *("--dtype", "bfloat16,int32", "--ranks", f"2,{ranks}", "--cadence", "barrier,graph"),
        *("--cache", "warm,cold", "--registration", "none,symmetric"),
        ranks=ranks,
    )
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    keys = list(zip(table["backend"], table["ranks"], table["status"], strict=True))
    assert set(keys) == {("mpi", 2, "ok"), ("mpi", ranks, "ok"), ("nccl", 2, "ok")} | {
        ("nccl", ranks, "skipped")
    }
    wrong = {
        n for n, (_, _, status) in zip(table["wrong_elements"], keys, strict=True) if status == "ok"
    }
    assert wrong == {0}
    assert "would share" in table["reason"][keys.index(("nccl", ranks, "skipped"))]
    graphs = [b for b, c in zip(table["backend"], table["cadence"], strict=True) if c == "graph"]
    assert set(graphs) == {"nccl"}


def test_links_are_measured_with_what_memory_there_is(paceline, tmp_path):
    done = paceline(*(*RUN, "--steps", 1, "--bytes", "1KB"), ranks=2)
    assert done.code == 0, done.err
    table = summary(tmp_path / "out.h5")
    assert table["status"] == ["ok"]
    assert table["link_ceiling_bytes_per_s"][0] > 0


def test_more_elements_than_mpi_counts_are_refused_on_every_rank(paceline):
    """Before anything runs: ranks outside the case would wait for those that reject it."""
    done = paceline(
        *(*RUN, "--op", "all_gather", "--bytes", "1KB,10GB", "--dtype", "bfloat16", "--ranks", 2),
        ranks=3,
    )
    assert done.code == 2
    assert "at most 2147483647 elements" in done.message


def test_what_the_timed_calls_left_is_checked(paceline, tmp_path):
    done = paceline(
        *(*CPU, "--steps", 2, "--bytes", "8KB", "--in-place", "no,yes"),
        *("--cache", "warm,cold", "--cadence", "back-to-back"),
        ranks=2,
    )
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "out.h5") as f:
        for case in f["cases"].values():
            when = [w.decode() for w in case["check/when"][:]]
            sets = 20 if case.attrs["cache"] == "cold" else 1
            timed = 0 if case.attrs["in_place"] == "yes" else sets
            assert when == (["before"] + ["timed"] * timed + ["after"]) * 2  # of two ranks


def test_the_comparison_with_bare_mpi(tmp_path):
    lines = tmp_path / "lines.jsonl"
    script = ROOT / "bench/peers/collective_ratios.py"
    words = [script, "--backend", "mpi", "--ranks", "2", "--bytes", "4096", "--steps", "3"]
    words += ["--turns", "1", "--paceline", PROGRAM, "--output", lines]
    done = run_line(ROOT, [sys.executable, *words])
    assert done.code == 0, done.err
    assert "| 4096 |" in done.out
    measured = [json.loads(line) for line in lines.read_text().splitlines()]
    assert {row["variant"] for row in measured} >= {"bare", "barrier"}


def test_resume_keeps_the_fits_of_other_cases(paceline, tmp_path):
    """Of other ranks and operations, with and without --fit; fits of the same cases change."""
    once = ("--device", "cpu", "--threads", 1, "--steps", 2, "--warmup", 1, "--quiet")
    args = ("collectives", *once, "--output", "fits.h5", *RUN[-2:])
    few = ("--bytes", "1KB..64KB*4")

    def fits():
        with h5py.File(tmp_path / "fits.h5") as file:
            names = zip(file["fit/op"].asstr()[:], file["fit/ranks"][:], strict=True)
            return sorted(names), len(file["fit_residuals/op"])

    def run(ranks, *more):
        done = paceline(*args, *more, ranks=ranks)
        assert done.code == 0, done.err

    run(2, "--op", "all_reduce", *few, "--fit")
    run(2, "--op", "all_reduce", "--bytes", "256KB", "--resume")
    assert fits() == ([("all_reduce", 2)], 4)
    run(2, "--op", "all_reduce", "--bytes", "1KB..256KB*4", "--fit", "--resume")
    assert fits() == ([("all_reduce", 2)], 5)
    run(2, "--op", "all_gather", *few, "--fit", "--resume")
    run(3, "--op", "all_reduce", *few, "--fit", "--resume")
    assert fits() == ([("all_gather", 2), ("all_reduce", 2), ("all_reduce", 3)], 13)


def test_sizes_are_rounded_down_to_a_part_for_each_rank(paceline, tmp_path):
    """The table shows the message beside --bytes where they differ. Messages of no bytes, which are
    faster than the latency since nothing is sent, are not fitted."""
    args = ("collectives", "--backend", "mpi", "--op", "all_gather", "--threads", 1, "--quiet")
    args = (*args, "--steps", 1, "--warmup", 0, *RUN[-2:], "--output")
    done = paceline(*args, "o.h5", "--bytes", "4,1001,1200", "--fit", ranks=3)
    assert done.code == 0, done.err
    assert summary(tmp_path / "o.h5")["message_bytes"] == [0, 996, 1200]
    with h5py.File(tmp_path / "o.h5") as file:
        assert list(file["fit_residuals/message_bytes"]) == [996, 1200]
    assert "message" in done.out
    assert "message" not in paceline(*args, "p.h5", "--bytes", "1200", ranks=3).out


def test_a_fit_of_one_size_is_left_out(paceline, tmp_path):
    """Out of place 20 MB need two buffers of that size, which do not fit."""
    sizes = ("--bytes", "1KB,20MB", "--memory-limit", "30MB", "--in-place", "no,yes", "--fit")
    done = paceline(*CPU, "--steps", 1, *sizes, ranks=2)
    assert done.code == 0, done.err
    status = {(row["in_place"], row["bytes"]): row["status"] for row in rows(tmp_path / "out.h5")}
    assert {case for case, how in status.items() if how != "ok"} == {("no", 20_000_000)}
    assert status["no", 20_000_000] == "oom"
    with h5py.File(tmp_path / "out.h5") as file:
        assert list(file["fit/in_place"].asstr()) == ["yes"]
        assert sorted(file["fit_residuals/message_bytes"]) == [1000, 20_000_000]
    assert "warning: all_reduce (mpi, float32, --ranks 2) has no fit" in done.err


@pytest.mark.parametrize("sizes", ["1000,1001", "4,1000"])
def test_a_fit_needs_two_sizes_after_rounding(paceline, sizes):
    done = paceline(*RUN, "--bytes", sizes, "--fit", ranks=2)
    assert done.code == 2
    assert "at least two message sizes above 0, in multiples of 8 bytes" in done.message
