"""Which files a run writes and which it leaves alone; --dry-run."""

import json
import os
import re
import shutil
import subprocess

import h5py
import pytest

from conftest import BUILD, PROGRAM, command, run_line
from result_files import split_into_case_files, summary

TINY = (
    "model", "--size", "tiny", "--vocab", 16, "--context", 8, "--batch-size", 2, "--threads", 1,
    "--device", "cpu", "--warmup", 0, "--steps", 1, "--quiet",
)  # fmt: skip
SUMS = ("precision", "--study", "accumulation", "--arithmetic", "fp32", "--quiet")


def test_cases_of_two_experiments_are_not_mixed(paceline, tmp_path):
    """By --resume of a sweep that was killed, or by merge."""
    for args, name in ((TINY, "m"), (SUMS, "other")):
        assert paceline(*args, "--output", f"{name}.h5").code == 0
    (model,) = split_into_case_files(tmp_path / "m.h5")
    done = paceline(*SUMS, "--output", "m.h5", "--resume")
    assert done.code == 2
    assert done.message == (
        f"paceline: --resume: m.h5.cases/{model.name} has results of 'model', not of 'precision'; "
        "name another --output"
    )
    for other in split_into_case_files(tmp_path / "other.h5"):
        shutil.copy(other, model.parent)
    (model.parent / "damaged.h5").write_bytes(b"damaged")
    before = {file: file.read_bytes() for file in model.parent.glob("*.h5")}
    done = paceline("merge", "m.h5")
    assert done.code == 2
    assert done.message == (
        f"paceline: merge: m.h5.cases/{model.name} has results of 'model', not of 'precision'; "
        "move it away"
    )
    assert {file: file.read_bytes() for file in model.parent.glob("*.h5")} == before
    assert not list(tmp_path.glob("*.damaged"))
    for file in before.keys() - {model}:
        file.unlink()
    merged = paceline("merge", "m.h5")
    assert (merged.code, merged.out) == (0, "m.h5: 1 case; --resume continues the sweep\n")
    assert len(summary(tmp_path / "m.h5")["case"]) == 1


def test_a_file_to_read_is_not_replaced(paceline, tmp_path):
    assert paceline(*TINY, "--output", "r.h5", "--dump", "w.h5").code == 0
    with h5py.File(tmp_path / "t.h5", "w") as tokens:
        tokens["tokens"] = [[1, 2, 3, 4, 5, 6, 7, 8]] * 2
        tokens["targets"] = tokens["tokens"][:]
    (tmp_path / "c.h5").write_text('size = "tiny"\n')
    link = tmp_path / "link.h5"
    for output, option, file in (
        ("--output", "--load-weights", "w.h5"), ("--output", "--tokens", "t.h5"),
        ("--output", "--config", "c.h5"), ("--dump", "--tokens", "t.h5"),
        ("--dump", "--config", "c.h5"),
    ):  # fmt: skip
        before = (tmp_path / file).read_bytes()
        link.unlink(missing_ok=True)
        link.symlink_to(file)
        for name in (file, "link.h5"):
            rest = () if output == "--output" else ("--output", "new.h5")
            done = paceline(*TINY, option, file, output, name, *rest, "--force")
            assert done.code == 2
            says = f"paceline: {output}: is the same file as {option}; name another file"
            assert done.message == says
            assert (tmp_path / file).read_bytes() == before


def test_weights_may_be_dumped_to_where_they_came_from(paceline):
    assert paceline(*TINY, "--output", "r.h5", "--dump", "w.h5").code == 0
    args = ("--load-weights", "w.h5", "--dump", "w.h5", "--force")
    done = paceline(*TINY, "--output", "s.h5", *args)
    assert done.code == 0, done.err


def test_runs_that_start_together_have_files_of_their_own(tmp_path):
    runs = [
        subprocess.Popen(command(0, *TINY), cwd=tmp_path, stdout=subprocess.DEVNULL)
        for _ in range(3)
    ]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    made = list((tmp_path / "results").iterdir())
    assert len([path for path in made if path.name.startswith("model-")]) == len(made) == 3


def test_a_working_folder_that_is_gone(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"rmdir ../gone && exec {' '.join(command(0, *TINY))} --output {tmp_path}/out.h5"
    done = run_line(gone, ["bash", "-c", line])
    assert done.code == 3
    assert "the working folder no longer exists; cd to one that does" in done.err


def test_an_output_whose_name_is_not_utf_8(tmp_path):
    name = b"o'\\ut\n\xff.h5"
    line = command(0, *TINY, "--output", os.fsdecode(name))
    subprocess.run(line, cwd=tmp_path, capture_output=True, check=True)
    with h5py.File(tmp_path / os.fsdecode(name)) as file:
        recorded = file.attrs["command"]
    assert recorded.isascii()
    echoed = subprocess.run(
        ["bash", "-c", f"printf %s {recorded}"], capture_output=True, check=True
    )
    assert echoed.stdout.endswith(b"--output" + name)


@pytest.mark.parametrize("option", ["--load-weights", "--tokens"])
def test_resuming_with_an_input_file_that_has_changed_is_a_warning(paceline, tmp_path, option):
    """The finished case, which read the old file, is kept."""
    path = tmp_path / "input"
    model = (*TINY, "--output", "out.h5")
    if option == "--tokens":
        path.write_bytes(bytes(2 * 200))
    else:
        assert paceline(*model, "--dump", path).code == 0
    read = (*model, option, path)
    assert paceline(*read, "--force").code == 0
    unchanged = paceline(*read, "--resume")
    assert (unchanged.code, unchanged.err) == (0, "")
    os.utime(path)
    changed = paceline(*read, "--resume")
    assert changed.code == 0
    assert changed.err == (
        f"warning: --resume: {path} has changed since the run of a finished case began; --force "
        "measures all cases again\n"
    )


def test_a_dry_run_says_what_cannot_run_here(paceline):
    preset = paceline("collectives", "--preset", "single-node", "--dry-run")
    assert preset.code == 0, preset.err
    lines = [line for line in preset.out.splitlines() if " mpi all_reduce 4 " in line]
    assert lines
    for line in lines:
        assert line.endswith("  skipped: needs 4 ranks; this launch has 1")
    limited = ("model", "--size", "tiny,small", "--memory-limit", "1GB", "--dry-run")
    *_, tiny, small = paceline(*limited).out.splitlines()
    assert "oom" not in tiny
    assert small.endswith("  oom: more than the device's memory")
    tiny, small = map(json.loads, paceline(*limited, "--json").out.splitlines())
    assert (tiny["size"], tiny["reason"]) == ("tiny", "")
    assert (small["size"], small["reason"]) == ("small", "oom: more than the device's memory")
    assert small["predicted_peak_bytes"] > 1e9 > tiny["predicted_peak_bytes"] > 1e6


def test_a_dry_run_predicts_the_peak_that_the_record_has(paceline, tmp_path):
    line = ("attention", "--context", 64, "--head-dim", 8, "--attention", "naive")
    line += ("--device", "cpu")
    (predicted,) = map(json.loads, paceline(*line, "--dry-run", "--json").out.splitlines())
    done = paceline(*line, "--json", "--warmup", 0, "--steps", 1, "--output", "out.h5")
    (measured,) = map(json.loads, done.out.splitlines())
    assert predicted["predicted_peak_bytes"] == measured["predicted_peak_bytes"]
    done = paceline(*line, "--dry-run")
    assert re.search(r"per rank and repetition, without \S+ MB to flush the cache:\n", done.out)


@pytest.mark.parametrize("closed", [">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_table_that_no_stream_takes_is_an_error(tmp_path, closed):
    """Otherwise a pipe that MPI opens takes the place of standard output, and the table."""
    line = command(0, "ddp", *TINY[1:], "--output", "out.h5")
    assert run_line(tmp_path, ["sh", "-c", f'exec "$@" {closed}', "sh", *line]).code == 6
    assert len(summary(tmp_path / "out.h5")["case"]) == 1


@pytest.mark.parametrize("ranks", [0, 2])
def test_what_a_library_prints_is_not_in_our_output(tmp_path, ranks):
    """As NCCL does, with NCCL_DEBUG."""
    line = command(ranks, "collectives", "--bytes", "1KB,2KB", "--json", "--device", "cpu")
    line += ["--memory-limit", "20MB"]  # which the messages that measure the links must fit, too
    words = [word.replace(str(PROGRAM), str(BUILD / "paceline_lying")) for word in line]
    done = run_line(tmp_path, words, PACELINE_LIE="print library 0 1 1")
    assert done.code == 0, done.err
    assert [json.loads(row)["bytes"] for row in done.out.splitlines()] == [1000, 2000]
    assert done.err.count("a library's line\n") == max(1, ranks)


def test_only_a_file_is_replaced(paceline, tmp_path):
    """As root, a rename would put a file in the place of /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out.h5").symlink_to("pipe")
    done = paceline(*TINY, "--output", "out.h5", "--force")
    assert done.code == 2
    assert done.message == "paceline: --output out.h5: is a device or a pipe; name another file"
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "pipe.cases").exists()


@pytest.mark.parametrize("existing", [(), ("--force",), ("--resume",)])
def test_what_a_user_has_put_beside_the_cases_is_kept(paceline, tmp_path, existing):
    folder = tmp_path / "out.h5.cases"
    folder.mkdir()
    (folder / "slurm-1.out").write_text("log")
    assert paceline(*TINY, "--output", "out.h5", *existing).code == 0
    assert [file.name for file in folder.iterdir()] == ["slurm-1.out"]
    (folder / "slurm-1.out").unlink()
    assert paceline(*TINY, "--output", "out.h5", "--force").code == 0
    assert not folder.exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((*TINY, "--force", "--output", "a.h5"), "--output a.h5: "),
        ((*TINY, "--output", "out.h5", "--tokens", "a.h5"), "--tokens: a.h5 cannot be read: "),
        ((*TINY, "--output", "a.h5"), "--output a.h5: "),
        ((*TINY, "--output", "out.h5", "--dump", "a.h5"), "--dump: cannot write a.h5 ("),
        (("merge", "a.h5"), "merge a.h5: "),
    ],
)
def test_links_that_lead_nowhere_but_to_themselves(paceline, tmp_path, args, says):
    (tmp_path / "a.h5").symlink_to("a.h5")
    done = paceline(*args)
    assert done.code == 2
    assert done.message.startswith(f"paceline: {says}Too many levels of symbolic links")


def test_a_dump_may_have_any_name(paceline):
    """'random' is what --tokens and --load-weights read where no file is given."""
    done = paceline(*TINY, "--output", "out.h5", "--dump", "random")
    assert done.code == 0, done.err


@pytest.mark.parametrize("args", [(*TINY, "--output"), (*TINY, "--force", "--output"),
                                  (*TINY, "--resume", "--output"), ("merge",)])  # fmt: skip
def test_a_link_in_place_of_the_cases_folder_is_refused(paceline, tmp_path, args):
    home = tmp_path / "home"
    (home / "work.tmp").mkdir(parents=True)
    for name in ("work.tmp/data", ".paceline-a.tmp", "mine.h5", "tiny-8-0123abcd.h5"):
        (home / name).write_text("precious")
    (tmp_path / "out.h5.cases").symlink_to("home")
    before = sorted(tmp_path.rglob("*"))
    done = paceline(*args, "out.h5")
    assert done.code == 2
    assert done.message.startswith("paceline: out.h5.cases is a symbolic link: remove it or name ")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("dump", ["out.h5.cases/w.h5", "out.h5.cases", "in/w.h5", "link.h5"])
def test_a_dump_among_the_cases_is_refused_before_measuring(paceline, tmp_path, dump):
    (tmp_path / "in").symlink_to("out.h5.cases")
    (tmp_path / "link.h5").symlink_to("out.h5.cases/w.h5")
    if dump != "out.h5.cases":
        (tmp_path / "out.h5.cases").mkdir()
    before = sorted(tmp_path.iterdir())
    done = paceline(*TINY, "--output", "out.h5", "--dump", dump, "--force")
    assert done.code == 2
    assert done.message == (
        "paceline: --dump: out.h5.cases is for the cases of --output; name another place"
    )
    assert sorted(tmp_path.iterdir()) == before


def test_a_dump_replaces_no_file_beside_it(paceline, tmp_path):
    (tmp_path / "w.h5.tmp").write_text("precious")
    assert paceline(*TINY, "--output", "out.h5", "--dump", "w.h5").code == 0
    assert (tmp_path / "w.h5.tmp").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.h5", "w.h5", "w.h5.tmp"]


def test_a_launch_is_the_newest_after_the_clock_was_set_back(paceline, tmp_path):
    assert paceline(*TINY, "--output", "out.h5").code == 0
    with h5py.File(tmp_path / "out.h5", "a") as file:
        (case,) = file["cases"].values()
        file["runs"].move(file.attrs["run"], "20991231T000000.000Z")
        file.attrs["run"] = case.attrs["run"] = "20991231T000000.000Z"
    wider = ("--context", "8,9", "--resume", "--output", "out.h5")
    assert paceline(*TINY, *wider).code == 0
    with h5py.File(tmp_path / "out.h5") as file:
        assert "--resume" in file.attrs["command"]
        runs = [case.attrs["run"] for case in file["cases"].values()]
        assert runs == ["20991231T000000.000Z", "20991231T000000.000Z+"]
        assert sorted(file["runs"]) == runs
