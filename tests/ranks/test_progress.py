"""Progress is redrawn on a terminal, also through mpirun, and printed as lines elsewhere."""

import os
import pty
import subprocess

import pytest

from conftest import command

SWEEP = ("model", "--size", "tiny", "--context", "8,16", "--device", "cpu", "--threads", 1)
SWEEP += ("--warmup", 1, "--steps", 2, "--force", "--output", "out.h5")


def on_a_terminal(folder, words, **streams):
    """The output of a command on a terminal; its streams go there unless given otherwise."""
    master, slave = pty.openpty()
    streams = {"stdin": slave, "stdout": slave, "stderr": slave, **streams}
    process = subprocess.Popen(words, cwd=folder, start_new_session=True, **streams)
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 1 << 16):
            shown += part
    except OSError:  # no process writes to it any more
        pass
    os.close(master)
    out, _ = process.communicate()
    assert process.returncode == 0
    return shown.decode(), (out or b"").decode()


@pytest.mark.parametrize("ranks", [0, 2])
def test_redrawn_on_a_terminal(tmp_path, ranks):
    shown, out = on_a_terminal(tmp_path, command(ranks, *SWEEP), stdout=subprocess.PIPE)
    assert "\r[1/2] context 8: set-up\x1b[K" in shown
    assert "\r[2/2] context 16: set-up" in shown
    assert " left\x1b[K" in shown
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown
    # The table goes to the other stream.
    assert out.rstrip().endswith("out.h5")
    assert "[1/2]" not in out
    assert "\r" not in out


@pytest.mark.parametrize("ranks", [0, 2])
def test_lines_where_there_is_no_terminal(paceline, ranks):
    done = paceline(*SWEEP, ranks=ranks)
    assert done.code == 0, done.err
    assert "\r" not in done.err
    lines = [line for line in done.err.splitlines() if line.startswith("[")]
    assert [line.split(":")[0] for line in lines] == ["[1/2] context 8", "[2/2] context 16"]
    assert " (took " in lines[0]
    assert " left)" in lines[0]
    assert " left)" not in lines[1]


def test_lines_through_a_pipe_below_a_terminal(tmp_path):
    """As with `mpirun ... 2>&1 | tee`: an ancestor has a terminal, our output goes elsewhere."""
    words = " ".join(command(1, *SWEEP)) + " 2> err.txt"
    on_a_terminal(tmp_path, ["sh", "-c", words])
    assert "\r" not in (tmp_path / "err.txt").read_text()
    words = " ".join(command(0, *SWEEP)) + " 2>&1 >/dev/null | cat > err.txt"
    on_a_terminal(tmp_path, ["sh", "-c", words])
    lines = (tmp_path / "err.txt").read_text().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("[1/2] context 8: step ")


def test_marked_lines_are_not_redrawn(tmp_path):
    words = command(1, *SWEEP)
    words.insert(1, "--tag-output")
    shown, _ = on_a_terminal(tmp_path, words, stdout=subprocess.PIPE)
    assert "\x1b[K" not in shown
    assert "[2/2] context 16: step " in shown
