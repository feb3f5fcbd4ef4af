"""The table at the end of a sweep: its width, and what its times add up to."""

import re

import pytest

from conftest import command
from result_files import rows
from terminals import on_a_terminal

CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--force", "--output", "out.h5")
TINY = ("model", "--size", "tiny", "--vocab", 64, "--context", "8,16", *CPU, "--warmup", 0)
TINY += ("--steps", 6)
SHORT = (*CPU, "--memory-limit", "20MB")  # so are the messages that measure the links
SWEEPS = [
    (
        0,
        (*TINY, "--mode", "forward,train-step", "--recompute", "none,swiglu,block", "--profile", 1),
    ),
    (2, ("ddp", *TINY[1:], "--sync", "none,naive,bucketed", "--bucket-mb", "0.1,1")),
    (2, ("collectives", "--bytes", "1KB,4KB", "--op", "all_reduce,broadcast", "--fit", *SHORT)),
]


@pytest.mark.parametrize(("ranks", "args"), SWEEPS)
def test_without_a_terminal_lines_have_at_most_100_columns(paceline, ranks, args):
    done = paceline(*args, ranks=ranks)
    assert done.code == 0, done.err
    assert 80 < max(map(len, done.out.splitlines())) <= 100
    assert not [line for line in done.out.splitlines() if line.endswith(" ")]


@pytest.mark.parametrize(("ranks", "width"), [(0, 60), (2, 160)])
def test_tables_are_as_wide_as_the_terminal(tmp_path, ranks, width):
    args = ("ddp", *TINY[1:], "--sync", "naive,bucketed", "--bucket-mb", "0.1,1")
    shown = on_a_terminal(tmp_path, command(ranks or 1, *args), width)
    table, prose = re.split("^step: median", shown, flags=re.MULTILINE)
    widest = max(map(len, table.splitlines()))
    assert width - 25 < widest <= width
    assert max(map(len, prose.splitlines())) <= min(width, 100)


@pytest.mark.parametrize("ranks", [0, 2])
def test_parts_of_a_step_add_up_to_the_step(paceline, tmp_path, ranks):
    done = paceline("ddp", *TINY[1:], "--sync", "naive", ranks=ranks)
    assert done.code == 0, done.err
    for row in rows(tmp_path / "out.h5"):
        for statistic in ("median", "mean"):
            parts = [value for name, value in row.items()
                     if name.endswith(f"_{statistic}_part_s")]  # fmt: skip
            assert len(parts) == 5
            assert sum(parts) == pytest.approx(row[f"step_{statistic}_s"], rel=1e-12)
    assert ("max " in done.out) == (ranks > 1)
