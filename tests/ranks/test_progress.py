"""Progress is redrawn on a terminal, also through mpirun, and printed as lines elsewhere."""

import re

import pytest

from conftest import command
from terminals import on_a_terminal

SWEEP = ("model", "--size", "tiny", "--context", "8,16", "--device", "cpu", "--threads", 1)
SWEEP += ("--warmup", 1, "--steps", 2, "--force", "--output", "out.h5")
FINISHED = r"\[%d/2\] context %d: step [\d.]+ ms \(took \d+ s(; \d+ s left)?\)"


@pytest.mark.parametrize("ranks", [0, 2])
def test_redrawn_on_a_terminal_where_finished_cases_stay(tmp_path, ranks):
    shown = on_a_terminal(tmp_path, command(ranks, *SWEEP))
    live, table = shown.split("\nsize tiny, ", 1)
    assert "\r[1/2] context 8: set-up (0 s)\x1b[K" in live
    assert re.search(r"\r\[2/2\] context 16: [^\r]* \(\d+ s; \d+ s left\)\x1b\[K", live)
    for index, context in ((1, 8), (2, 16)):
        assert re.search(r"\r" + FINISHED % (index, context) + r"\x1b\[K\n", live)
    assert live.count("\n") == 2
    assert "[1/2]" not in table
    assert table.rstrip("\r\x1b[K\n").endswith("out.h5")


@pytest.mark.parametrize("stream", ["--json", "--quiet"])
def test_with_json_and_quiet_on_a_terminal(tmp_path, stream):
    shown = on_a_terminal(tmp_path, command(2, *SWEEP, stream))
    lines = shown.split("\n")
    if stream == "--quiet":
        assert "\r" not in shown
        assert "[1/2]" not in shown
    else:  # every object begins a line
        assert sum(line.rpartition("\x1b[K")[2].startswith('{"case":') for line in lines) == 2


@pytest.mark.parametrize("ranks", [0, 1])
def test_lines_through_pipes_and_to_files_below_a_terminal(tmp_path, ranks):
    """As with `mpirun ... 2>&1 | tee`: an ancestor has a terminal, our output goes elsewhere."""
    words = " ".join(map(str, command(ranks, *SWEEP)))
    for where in ("> all.txt 2>&1", "2>&1 | cat > all.txt"):
        shown = on_a_terminal(tmp_path, ["sh", "-c", f"{words} {where}"])
        assert shown == ""
        lines = (tmp_path / "all.txt").read_text().splitlines()
        assert "\r" not in "".join(lines)
        assert lines[0].startswith("[1/2] context 8: step ")


def test_marked_lines_are_not_redrawn(tmp_path):
    words = command(1, *SWEEP)
    words.insert(1, "--tag-output")
    shown = on_a_terminal(tmp_path, words)
    assert "\x1b[K" not in shown
    assert "[2/2] context 16: step " in shown
