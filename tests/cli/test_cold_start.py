"""`model --cold-start` and `--warmup a,b`: measurements from the first step of a process on."""

import signal
import subprocess

import h5py
import numpy as np
import pytest

from conftest import PATIENCE, command, wait_for_cases, wait_until
from result_files import rows

SMALL = ("model", "--device", "cpu", "--threads", 1, "--size", "tiny", "--batch-size", 1)
RUN = (*SMALL, "--quiet", "--output", "out.h5", "--steps", 3, "--context")
COLD = (*RUN, "8,16", "--cold-start", "--warmup", "0,1,5")


def series(path):
    """{(context, warmup): [seconds of the warm-up steps, seconds of the measured steps]}."""
    found = {}
    with h5py.File(path) as f:
        for case in f["cases"].values():
            steps = [case[f"{group}/step"][0] for group in ("samples_warmup", "samples")]
            found[int(case.attrs["context"]), int(case.attrs["warmup"])] = steps
    return found


def test_all_values_of_warmup_share_one_run(paceline, tmp_path):
    done = paceline(*RUN, 8, "--warmup", "0,2,3")
    assert done.code == 0, done.err
    found = series(tmp_path / "out.h5")
    longest = np.concatenate(found[8, 3])
    assert len(longest) == 1 + 3 + 3  # rehearsal (not counted by --warmup), warm-up, measured
    for warmup in (0, 2, 3):
        before, measured = found[8, warmup]
        assert (before == longest[: 1 + warmup]).all()
        assert (measured == longest[1 + warmup :][:3]).all()
    assert "warmup:" in done.out


def test_warmup_table_has_nan_for_phases_that_a_mode_lacks(paceline, tmp_path):
    done = paceline(*RUN, 8, "--warmup", "0,1", "--mode", "inference,forward-backward")
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "out.h5") as f:
        modes = [f["cases"][name].attrs["mode"] for name in f["warmup/case"].asstr()]
        has_backward = ~np.isnan(f["warmup/backward_mean_s"][:])
    assert sorted(modes) == 2 * ["forward-backward"] + 2 * ["inference"]
    assert [mode == "forward-backward" for mode in modes] == list(has_backward)


def test_processes_are_waited_for_where_the_parent_ignores_their_end(tmp_path):
    line = command(0, *RUN, "8,16", "--cold-start", "--warmup", "0,1")
    done = subprocess.run(
        ["env", "--ignore-signal=CHLD", *line], cwd=tmp_path, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0
    assert set(series(tmp_path / "out.h5")) == {(8, 0), (8, 1), (16, 0), (16, 1)}


def test_cold_start_measures_each_model_in_its_own_process(paceline, tmp_path):
    done = paceline(*COLD)
    assert done.code == 0, done.err
    found = series(tmp_path / "out.h5")
    assert set(found) == {(context, warmup) for context in (8, 16) for warmup in (0, 1, 5)}
    table = rows(tmp_path / "out.h5")
    for context in (8, 16):
        before, measured = found[context, 0]
        assert len(before) == 0
        for warmup in (0, 1, 5):
            assert len(found[context, warmup][0]) == warmup
            assert len(found[context, warmup][1]) == 3
        longest = np.concatenate(found[context, 5])
        assert (measured == longest[:3]).all()
        of_context = [row for row in table if row["context"] == context]
        assert {row["rehearsal_s"] for row in of_context} == {longest[0]}
        assert all(row["device_start_s"] > 0 for row in of_context)
        assert all(0 < row["library_s"] < row["setup_s"] for row in of_context)
    with h5py.File(tmp_path / "out.h5") as f:
        assert f.attrs["complete"]
        assert len(f["runs"]) == 2  # processes
        means = dict(zip(f["warmup/case"].asstr()[:], f["warmup/forward_mean_s"][:], strict=True))
    assert means == {row["case"]: row["forward_mean_s"] for row in table}
    assert done.out.count("paceline") == 0
    assert done.out.count("\nout.h5\n") == 1  # one table for all processes


def test_json_has_one_line_per_case_over_all_processes(paceline):
    done = paceline(*COLD, "--json")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 6


def test_cold_start_of_a_model_that_does_not_fit_is_an_oom_row(paceline, tmp_path):
    options = ("--context", "8,4096", "--cold-start", "--warmup", "0,1", "--memory-limit", "60MB")
    done = paceline(*SMALL, "--quiet", "--output", "out.h5", "--steps", 1, *options)
    assert done.code == 0, done.err
    statuses = {(row["context"], row["status"]) for row in rows(tmp_path / "out.h5")}
    assert statuses == {(8, "ok"), (4096, "oom")}
    assert "oom" in done.out


def test_exit_code_is_the_worst_of_all_processes(paceline, tmp_path):
    options = ("--mode", "train-step,forward", "--cold-start", "--warmup", 0, "--lr", "1e6")
    done = paceline(*SMALL, "--quiet", "--output", "out.h5", "--steps", 9, *options)
    statuses = [row["status"] for row in rows(tmp_path / "out.h5")]
    assert statuses == ["diverged", "ok"]
    assert done.code == 4, done.err


def test_a_stop_signal_reaches_the_child_and_resume_goes_on(paceline, tmp_path, launch):
    lasting = (*SMALL, "--quiet", "--output", "out.h5", "--steps", 100, "--cold-start")
    lasting = (*lasting, "--warmup", "0,1", "--context")
    run = launch(0, *lasting, "8,512")
    wait_for_cases(tmp_path, 2)  # of the first process
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 6, err
    with h5py.File(tmp_path / "out.h5") as f:
        assert len(f["cases"]) == 2
        assert not f.attrs["complete"]
    done = paceline(*lasting, "8,16", "--resume")
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "out.h5") as f:
        assert len(f["cases"]) == 4


def test_no_process_outlives_the_one_that_was_started(tmp_path, launch):
    """An orphan would keep the cores and the lock of the output until its run is measured."""
    run = launch(0, *SMALL, "--output", "out.h5", "--steps", 1_000_000, "--cold-start")
    wait_until((tmp_path / "out.h5.cases").exists)  # made by the child
    run.kill()
    _, err = run.communicate(timeout=PATIENCE)  # the child has the same standard error
    assert "paceline: stopped by a signal" in err


@pytest.mark.parametrize(
    ("ranks", "options", "words"),
    [
        (2, ("8", "--cold-start"), "--cold-start: needs a single rank"),
        (1, ("8,16", "--cold-start"), "--cold-start: these 2 configurations need a process each"),
        (0, ("8", "--cold-start", "--max-warmup", 50), "--max-warmup: cannot be combined"),
        (0, ("8", "--warmup", "0,1", "--max-warmup", 50), "--max-warmup: cannot be combined"),
        (0, ("8", "--cold-start", "--dump", "dump.h5"), "--dump: cannot be combined"),
    ],
)
def test_cold_start_is_refused_with_options_that_exclude_it(
    paceline, tmp_path, ranks, options, words
):
    done = paceline(*RUN, *options, ranks=ranks)
    assert done.code == 2, done.err
    assert words in done.message
    assert not (tmp_path / "out.h5").exists()


def test_cold_start_under_mpirun_with_one_rank(paceline, tmp_path):
    done = paceline(*RUN, 8, "--cold-start", "--warmup", "0,5", ranks=1)
    assert done.code == 0, done.err
    assert len(rows(tmp_path / "out.h5")) == 2


def test_a_dry_run_starts_no_process(paceline):
    done = paceline(*COLD, "--dry-run")
    assert done.code == 0, done.err
    assert done.out.startswith("6 cases")
