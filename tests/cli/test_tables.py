"""The table at the end of a sweep: its width, formats, statistics and columns."""

import csv
import io

import pytest

from result_files import rows

CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--force", "--output", "out.h5")
TINY = ("model", "--size", "tiny", "--context", "8,16", *CPU, "--warmup", 0, "--steps", 6)


@pytest.mark.parametrize(
    ("ranks", "args"),
    [
        (0, TINY),
        (0, (*TINY, "--stats", "mean")),
        (0, (*TINY, "--mode", "forward,train-step", "--recompute", "none,swiglu,block")),
        (2, ("ddp", *TINY[1:], "--sync", "none,naive,bucketed", "--bucket-mb", "0.1,1")),
        (2, ("zero", *TINY[1:], "--shard", "none,broadcast,zero1,fsdp", "--stats", "mean")),
        (0, ("attention", "--context", "16,32", "--attention", "naive,fused,flash", *CPU)),
        (2, ("collectives", "--bytes", "1KB,4KB", "--op", "all_reduce,broadcast", "--fit", *CPU)),
    ],
)
def test_lines_have_at_most_100_columns(paceline, ranks, args):
    done = paceline(*args, ranks=ranks)
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 100
    assert not [line for line in done.out.splitlines() if line.endswith(" ")]


@pytest.mark.parametrize("statistic", ["median", "mean"])
@pytest.mark.parametrize("ranks", [0, 2])
def test_parts_of_a_step_add_up_to_the_step(paceline, tmp_path, ranks, statistic):
    args = ("ddp", *TINY[1:], "--sync", "naive", "--stats", statistic, "--format", "csv")
    done = paceline(*args, ranks=ranks)
    assert done.code == 0, done.err
    in_file = rows(tmp_path / "out.h5")
    table = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["context"] for row in table] == ["8", "16"]
    for row, of_file in zip(table, in_file, strict=True):
        step = of_file[f"step_{statistic}_s"]
        assert float(row[f"step_{statistic}_s"]) == step
        parts = [float(row[name]) for name in row if name.endswith(f"_{statistic}_part_s")]
        assert len(parts) == 5
        assert sum(parts) == pytest.approx(step, rel=1e-12)
        assert (f"forward_{statistic}_s" in row) == (ranks > 1)


def test_markdown_has_a_row_per_case(paceline):
    done = paceline(*TINY, "--format", "md")
    table = [line for line in done.out.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert len({line.count("|") for line in table}) == 1
    assert table[2].startswith("| 8 |")


def test_columns_option(paceline):
    args = ("--columns", "peak_bytes,status", "--format", "csv")
    header, *values = paceline(*TINY, *args).out.splitlines()
    assert header.endswith(",recompute,status,reason,peak_bytes")
    assert len(values) == 2


def test_an_unknown_column_is_refused_before_anything_runs(paceline, tmp_path):
    done = paceline(*TINY, "--columns", "peak_bytes,losss")
    assert done.code == 2
    assert "--columns: the summary has no losss (did you mean loss?)" in done.message
    assert "paceline columns" in done.message
    assert done.out == ""
    assert not (tmp_path / "out.h5").exists()


def test_a_column_of_another_experiment_is_refused_before_anything_runs(paceline, tmp_path):
    done = paceline(*TINY, "--columns", "peak_bytes,busbw_bytes_per_s")
    assert done.code == 2
    says = "--columns: model has no busbw_bytes_per_s, which is a column of collectives"
    assert done.message == f"paceline: {says}"
    assert done.out == ""
    assert not (tmp_path / "out.h5").exists()


def test_a_column_that_no_case_has_is_a_warning(paceline, tmp_path):
    done = paceline(*TINY, "--columns", "peak_bytes,both_median_s")
    assert done.code == 0
    assert "warning: --columns: the summary has no both_median_s" in done.err
    assert "peak [MB]" in done.out
    assert len(rows(tmp_path / "out.h5")) == 2


def test_a_column_of_measured_cases_alone_is_no_warning_if_none_was_measured(paceline):
    done = paceline(*TINY, "--columns", "step_median_s", "--memory-limit", "1MB")
    assert done.code == 0
    assert "warning" not in done.err


@pytest.mark.parametrize(
    ("ranks", "args"),
    [
        (0, (*TINY, "--optimizer", "in-backward")),
        (2, ("ddp", *TINY[1:], "--verify")),
        (2, ("zero", *TINY[1:], "--shard", "zero1,fsdp", "--verify", 1)),
        (0, ("attention", "--context", 16, "--attention", "naive,flash", *CPU)),
        (2, ("collectives", "--bytes", "1KB,4KB", "--fit", *CPU)),
        (0, ("precision", "--study", "accumulation,bits,dtypes,norms", *CPU)),
    ],
)
def test_every_column_of_the_summary_can_be_requested(paceline, tmp_path, ranks, args):
    assert paceline(*args, ranks=ranks).code == 0
    names = rows(tmp_path / "out.h5")[0].keys()
    again = [arg for arg in args if arg != "--force"]
    done = paceline(*again, "--resume", "--columns", ",".join(names), ranks=ranks)
    assert done.code == 0, done.err
    assert "has no" not in done.err


@pytest.mark.parametrize("other", ["--json", "--dry-run"])
@pytest.mark.parametrize(
    "args", [("--format", "md"), ("--stats", "mean"), ("--columns", "peak_bytes")]
)
def test_table_options_are_refused_without_a_table(paceline, other, args):
    done = paceline(*TINY, other, *args)
    assert done.code == 2
    assert done.message.startswith(f"paceline: {args[0]}: ")
    assert other in done.message


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--format", "html"), "--format: 'html' is unknown; choose text, md, csv"),
        (("--stats", "mode"), "--stats: 'mode' is unknown; choose median, mean"),
        (("--columns", "a,,b"), "--columns: has an empty value"),
    ],
)
def test_wrong_values_of_table_options(paceline, args, says):
    done = paceline(*TINY, *args)
    assert done.code == 2
    assert says in done.message
