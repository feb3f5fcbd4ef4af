"""bench/peers/train_step_ratios.py with stand-ins for both sides: who is measured when, and what
the file holds."""

import json
import os
import sys
from itertools import pairwise

import h5py
import pytest
import train_step_ratios as ratios

from analysis import peers
from analysis.__main__ import main

# Prints a row for every variant that it reads, and appends the variant to `asked`. "breaks" ends
# the process, "hangs" answers nothing.
PEER = """
import json, sys, time
SECONDS = {"captured": 0.011, "captured-compile": 0.008, "tuned": 0.0079,
           "tuned+in-backward": 0.007}
print("a library's greeting", flush=True)
for line in sys.stdin:
    name = line.strip()
    open(FOLDER + "/asked", "a").write(f"peer {name}\\n")
    if name == "eager+cudnn":
        raise SystemExit(9)
    if name == "eager+flash":
        time.sleep(60)
    row = {"software": "PyTorch 2", "variant": name, "exec": "compiled", "status": "ok",
           "optimizer": "in-backward" if "backward" in name else "serial"}
    s = SECONDS.get(name)
    if s is None:
        row |= {"status": "oom", "reason": "out of memory"}
    else:
        row |= {"step_median_s": s, "step_mean_s": s, "step_min_s": s, "step_max_s": s,
                "peak_bytes": 3e9, "loss": 9.2, "samples": {"step": [[s] * 6]},
                "samples_warmup": {"step": [[2 * s] * 3]}}
    print(json.dumps(row), flush=True)
"""


@pytest.fixture
def run(tmp_path, monkeypatch, script, own):
    """run(*options): runs the script into sweep.h5; returns who was asked for what, in order."""
    monkeypatch.setattr(ratios, "PEER", script("peer.py", f"FOLDER = {str(tmp_path)!r}\n{PEER}"))
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho NVIDIA H200\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sys, "argv", ["train_step_ratios.py", "--size", "of this run"])
    asked = tmp_path / "asked"
    turns = []

    def paceline(_options, arguments):
        given = dict(pairwise(arguments))
        order = given.get("--optimizer", "serial")
        with asked.open("a") as file:
            file.write("paceline " + json.dumps(arguments) + "\n")
        turns.append(order)
        seconds = {"serial": 0.006, "in-backward": 0.005}[order] * 1.1 ** turns.count(order)
        return own([{"exec": given["--exec"], "optimizer": order, "d_model": 4}], [seconds])

    monkeypatch.setattr(ratios, "paceline", paceline)

    def start(*options):
        asked.unlink(missing_ok=True)
        turns.clear()
        ratios.main([*options, "--output", str(tmp_path / "sweep.h5")])
        return asked.read_text().splitlines() if asked.exists() else []

    return start


def who(asked):
    return [line if line.startswith("peer") else line.split()[0] for line in asked]


def test_both_sides_take_turns_and_the_fastest_variants_go_on(run, tmp_path):
    names = ["captured", "tuned", "captured-compile", "tuned+in-backward", "eager"]
    asked = run("--turns", "3", "--variants", *names)
    ours = ["paceline"] * 2
    fastest = ["peer tuned", "peer tuned+in-backward"]
    first = [f"peer {name}" for name in names]
    assert who(asked) == [*ours, *first, *ours, *fastest, *ours, *fastest]
    frame, _ = peers.read(tmp_path / "sweep.h5")
    tuned = frame[frame["variant"] == "tuned"]
    assert list(tuned["turn"]) == [1, 2, 3]
    assert list(frame[frame["variant"] == "eager"]["status"]) == ["oom"]


def test_each_variant_of_ours_has_a_launch_with_the_case_of_the_peer(run):
    asked = run(
        "--size", "512x2048x6x8", "--precision", "bf16", "--exec", "eager", "compiled",
        "--turns", "1", "--variants", "captured",
    )  # fmt: skip
    calls = [json.loads(line.split(" ", 1)[1]) for line in asked if line.startswith("paceline")]
    found = [(c[c.index("--exec") + 1], c[c.index("--optimizer") + 1]) for c in calls]
    assert found == [(e, o) for e in ("eager", "compiled") for o in ("serial", "in-backward")]
    for call in calls:
        assert call[:9] == [
            "model", "--d-model", "512", "--d-ff", "2048", "--layers", "6", "--heads", "8",
        ]  # fmt: skip
        assert call[call.index("--precision") + 1] == "bf16"
        assert call[call.index("--timing") + 1] == "step"


def test_the_optimizer_option_is_given_only_where_it_applies(run):
    for options in (["--mode", "forward"], ["--precision", "fp16"]):
        (first, *_) = run(*options, "--turns", "1", "--variants", "captured")
        assert "--optimizer" not in first


def test_a_variant_that_ends_or_hangs_is_a_row_and_the_next_is_measured(run, tmp_path, monkeypatch):
    class Impatient(ratios.Server):
        def __init__(self, command, limit):
            super().__init__(command, limit=2)

    monkeypatch.setattr(ratios, "Server", Impatient)
    names = ["eager+cudnn", "eager+flash", "captured"]
    run("--turns", "1", "--variants", *names)
    frame, _ = peers.read(tmp_path / "sweep.h5")
    rows = frame.set_index("variant")
    assert list(rows.loc[names, "status"]) == ["failed", "failed", "ok"]
    assert rows.loc["eager+cudnn", "reason"] == "the process ended with 9"
    assert rows.loc["eager+flash", "reason"] == "no answer within 2 s"


def test_cases_in_the_output_file_are_not_measured_again(run, tmp_path, capsys):
    """Nor does one begin after the given minutes."""
    few = ["--turns", "1", "--variants", "captured"]
    run("--context", "128", "256", *few)
    with pytest.raises(SystemExit) as stopped:
        run("--context", "128", "256", "512", "--minutes", "0", *few)
    assert stopped.value.code == 6
    assert not (tmp_path / "asked").exists()
    assert "cases left: 1" in capsys.readouterr().err
    asked = run("--context", "256", "512", *few)
    assert [line for line in asked if line.startswith("paceline") and '"512"' not in line] == []
    frame, attributes = peers.read(tmp_path / "sweep.h5")
    assert list(frame["context"].unique()) == [128, 256, 512]
    assert attributes["command"] == "python3 train_step_ratios.py --size 'of this run'"


def test_an_interrupt_keeps_the_finished_cases(run, tmp_path, monkeypatch):
    in_turns = ratios.in_turns
    started = []

    def breaks(*arguments):
        started.append(arguments)
        if len(started) == 2:
            raise KeyboardInterrupt
        return in_turns(*arguments)

    monkeypatch.setattr(ratios, "in_turns", breaks)
    with pytest.raises(KeyboardInterrupt):
        run("--context", "128", "256", "--turns", "1", "--variants", "captured")
    assert list(peers.read(tmp_path / "sweep.h5")[0]["context"].unique()) == [128]


def test_a_file_is_of_one_device(run, tmp_path):
    few = ["--turns", "1", "--variants", "captured"]
    run(*few)
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho NVIDIA H100\n")
    with pytest.raises(SystemExit, match="measured on NVIDIA H200; this is NVIDIA H100"):
        run(*few, "--context", "256")


def test_the_file_has_both_sides_samples_and_the_package_reads_it(run, tmp_path, capsys):
    run("--turns", "2", "--variants", "captured", "captured-compile")
    path = tmp_path / "sweep.h5"
    with h5py.File(path) as file:
        assert file.attrs["experiment"] == "model-peers"
        assert file.attrs["software_version"] == "0123456789ab"
        assert file["environment"].attrs["driver"] == "580"
        assert file["environment"].attrs["pytorch"] == "PyTorch 2"
        assert list(file["ranks/device"].asstr()[:]) == ["NVIDIA H200"]
        (run_of_file,) = file["runs"].values()
        assert run_of_file.attrs["command"] == file.attrs["command"]
        cases = {(c.attrs["variant"], c.attrs["turn"]): c for c in file["cases"].values()}
        ours, theirs = cases["paceline compiled", 2], cases["captured-compile", 2]
        assert ours["samples/step"][:].tolist() == [[pytest.approx(0.006 * 1.21)] * 6]
        assert theirs["samples/step"][:].tolist() == [[0.008] * 6]
        assert theirs["samples_warmup/step"][:].tolist() == [[0.016] * 3]
        assert theirs["samples/step"].attrs["unit"] == "s"
        assert (ours.attrs["d_model"], "d_model" in theirs.attrs) == (4, False)
        assert file["summary/step_median_s"].attrs["unit"] == "s"
    capsys.readouterr()
    main(["tables", str(path)])
    printed = capsys.readouterr().out
    assert "PyTorch captured-compile" in printed and "paceline compiled" in printed
    main(["compare", str(path), str(path)])
    assert "7 same" in capsys.readouterr().out


def test_the_printed_table_has_ratios_of_pairs(run, capsys):
    run("--turns", "2", "--variants", "captured-compile", "tuned+in-backward")
    printed = capsys.readouterr().out
    rows = [line.split("|") for line in printed.splitlines() if "compiled" in line]
    serial = [cell.strip() for cell in rows[0]]
    # 6.6 and 7.26 ms beside 8: ratios 0.825 and 0.9075, whose geometric mean is 0.865.
    assert serial[2:7] == ["compiled", "6.930", "0.0", "captured-compile", "8.000"]
    assert serial[8].startswith("0.865 [") and serial[9] == "2"
    in_backward = [cell.strip() for cell in rows[1]]
    assert in_backward[2:6] == ["compiled, in-backward", "5.775", "0.0", "tuned+in-backward"]
