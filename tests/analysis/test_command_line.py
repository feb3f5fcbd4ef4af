"""`python3 -m analysis`: files written, messages and exit codes."""

import contextlib
import lzma
import os
import re
import resource
import signal
import subprocess
import sys
import time

import h5py
import pytest

from analysis import __main__ as command_line
from analysis import temporary_files
from analysis.__main__ import main
from conftest import ROOT, analyse, run_line
from legibility import texts
from synthetic import STEP, case


def test_it_runs_as_a_module_and_prints_the_written_path(good, tmp_path):
    done = analyse("tables", good, "--output", tmp_path / "new" / "table.md")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{tmp_path}/new/table.md\n"
    assert "100.0 [100.0, 100.0]" in (tmp_path / "new" / "table.md").read_text("utf-8")


def test_a_stop_leaves_no_temporary_file(tmp_path):
    """While it decompresses, in a process of its own that ends after its parent."""
    packed = ROOT / "results" / "reference" / "ddp-profile-h200.h5.xz"
    arguments = [sys.executable, "-m", "analysis", "report", packed, "--output", "r.html"]
    folder = tmp_path / "tmp"
    folder.mkdir()
    with subprocess.Popen(
        arguments, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    ) as process:
        while not any(folder.iterdir()):
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        assert process.wait() == -signal.SIGTERM
    deadline = time.monotonic() + 20
    while any(folder.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stopped_reader_leaves_the_files_of_its_parent(monkeypatch, tmp_path):
    kept = tmp_path / "plain.h5"
    kept.touch()
    monkeypatch.setattr(temporary_files, "FILES", {kept})
    child = os.fork()
    if child == 0:
        command_line.stop(signal.SIGTERM, None)
        os._exit(1)  # not reached
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert kept.exists()


def test_characters_that_the_font_lacks_and_control_characters(make_file, tmp_path):
    rows = [case({"size": size}, STEP, STEP) for size in ("\u6a21\u578b", "\U0001f600", "a\a")]
    backend = "module://matplotlib_inline.backend_inline"  # which is not needed
    path = make_file(rows)
    done = analyse("figures", path, "--output", tmp_path / "drawn.svg", MPLBACKEND=backend)
    assert (done.code, done.err) == (0, "")
    words = set(texts(tmp_path / "drawn.svg"))
    assert {"\u6a21\u578b", "\U0001f600", r"a\x07"} <= words


def test_a_file_whose_name_is_not_utf_8(good, tmp_path, refused):
    name = good.rename(tmp_path / os.fsdecode(b"a\xff.h5"))
    says = r"a\udcff.h5: the name is not UTF-8; rename it"
    assert says in refused("report", name, "--output", tmp_path / "r.html")
    assert says in refused("report", "b.h5", "--output", name)


def in_shell(line, **variables):
    """Exit code and stderr of a command line; $analysis is the program."""
    done = run_line(
        ROOT, ["bash", "-c", line], analysis=f"{sys.executable} -m analysis", **variables
    )
    return done.code, done.err


FULL = "analysis: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("$analysis tables $good >/dev/full", 6, FULL),
        ("$analysis tables $good >&- 2>&-", 0, ""),
        ("$analysis tables --help | true; exit ${PIPESTATUS[0]}", 0, ""),
        ("PYTHONUNBUFFERED=1 $analysis --help >/dev/full", 6, FULL),
        ("$analysis tables none.h5 --output t.md 2>/dev/full", 2, ""),
    ],
)  # fmt: skip
def test_what_no_stream_takes(good, tmp_path, line, code, says):
    table = tmp_path / "table.md"
    assert in_shell(line, good=f"{good} --output {table}") == (code, says)
    if "$good" in line:
        assert table.read_text("utf-8").startswith("## Cases")


def test_a_path_that_the_terminal_cannot_show(good, tmp_path):
    line = f"$analysis tables {good} --output {tmp_path}/ü.md >{tmp_path}/out"
    assert in_shell(line, PYTHONIOENCODING="ascii") == (0, "")
    assert (tmp_path / "out").read_text("utf-8") == f"{tmp_path}/\\xfc.md\n"


def test_help_lists_all_verbs(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code in (None, 0)
    out = capsys.readouterr().out
    verbs = ("tables", "figures", "report", "snapshot", "trace", "peers", "rates", "check-plan")
    assert all(verb in out for verb in verbs)


@pytest.mark.parametrize(
    ("name", "options", "start"),
    [
        ("t.md", [], "## Cases"),
        ("t.tex", [], "% needs"),
        ("t.csv", [], "size,"),
        ("t.txt", ["--format", "latex"], "% needs"),
        ("t.md", ["--format", "csv"], "size,"),
    ],
)
def test_the_format_follows_the_option_or_the_extension(good, tmp_path, name, options, start):
    main(["tables", str(good), "--output", str(tmp_path / name), *options])
    assert (tmp_path / name).read_text("utf-8").startswith(start)


def test_a_sweep_that_did_not_end_has_to_be_merged(tmp_path, refused):
    path = tmp_path / "a.h5"
    (tmp_path / "a.h5.cases").mkdir()
    assert refused("tables", path, "--output", "t.md") == f"{path}: no such file"
    (tmp_path / "a.h5.cases" / "case.h5").touch()
    assert refused("tables", path, "--output", "t.md") == (
        f"{path}: no such file, but finished cases of a run that did not end: paceline merge {path}"
    )


def replace(group, name, *shape_and_type):
    del group[name]
    return group.create_dataset(name, *shape_and_type)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda f: f.attrs.__delitem__("schema"), "not a paceline result file"),
        (lambda f: f.attrs.__setitem__("schema_version", 3), "schema version 3; this reads 1 and"),
        (lambda f: f.__delitem__("summary"), ": /summary is missing"),
        (lambda f: f.__setitem__("summary/x", [1.0, 2.0]), "columns of /summary differ in length"),
        (lambda f: replace(f["summary"], "step_mean_s", (), "f8"), "is not a column"),
        (lambda f: replace(f["summary"], "step_mean_s", (1,), "c16"), "is not a column"),
        (lambda f: replace(f["summary"], "step_mean_s", None, None, h5py.Empty("f8")), "is not a"),
        (lambda f: replace(f["cases/case-000/samples"], "step", (6,), "f8"), "[rank, repetition]"),
        (lambda f: f["cases/case-000/samples/step"].__setitem__((0, 2), -1), "took -1.0 s in rep"),
        (lambda f: f["cases"].__setitem__("more", h5py.SoftLink("/none")), "not as paceline writ"),
        (lambda f: f.__setitem__("more", h5py.ExternalLink("b.h5", "/")), "links to other files"),
        (lambda f: f.create_dataset("more", (2**40,), "f8"), "claims more data than"),
    ],
    ids=[
        "something else", "version", "no summary", "lengths", "scalar", "complex", "no space",
        "no ranks", "negative", "dangling", "external", "huge",
    ],
)  # fmt: skip
def test_files_that_paceline_cannot_have_written_are_refused(good, refused, damage, says):
    with h5py.File(good, "a") as file:
        damage(file)
    message = refused("tables", good, "--output", "t.md")
    assert str(good) in message
    assert says in message


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a\nb\x1b[31mé.h5", None, r"a\nb\x1b[31mé.h5: no such file"),
        ("a.h5", b"not a result", "a.h5: cannot be read: not an HDF5 file, or a damaged one"),
        ("a.jsonl", b"[" * 100_000, "a.jsonl: line 1: is not JSON"),
        (".", None, ": is a folder; give result files"),
    ],
    ids=["missing", "no HDF5", "nested JSON", "folder"],
)
def test_what_is_no_result_file_is_named_among_good_ones(
    good, tmp_path, refused, name, content, says
):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / name
    if content:
        path.write_bytes(content)
    said = refused("tables", good, path, "--output", "t.md")
    assert said.endswith(says)
    assert said.startswith(f"{tmp_path}/in")


@pytest.mark.parametrize("extension", ["h5", "h5.xz", "jsonl"])
def test_what_no_program_can_read(good, tmp_path, refused, extension):
    device, pipe, loop = (tmp_path / f"{name}.{extension}" for name in ("device", "pipe", "loop"))
    device.symlink_to("/dev/null")
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    long = tmp_path / f"{'a' * 300}.{extension}"
    for path, says in (
        (device, "is not a file"), (pipe, "is not a file"),
        (loop, "cannot be read: too many levels of symbolic links"),
        (long, "cannot be read: file name too long"),
    ):  # fmt: skip
        again = [path] * (path == loop)
        assert refused("tables", path, *again, "--output", "t.md") == f"{path}: {says}"
    long = long.with_suffix(".md")
    said = refused("tables", good, "--output", long)
    assert said == f"{long}: cannot be written: File name too long"


@contextlib.contextmanager
def files_of_at_most(size):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(SystemExit) as stopped:
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stopped.value.code == 6


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        *[("tables", f"t.{form}") for form in ("md", "tex", "csv")],
        *[("figures", f"f.{form}") for form in ("svg", "png")],
        ("report", "r.html"),
    ],
)
def test_a_disk_that_fills_up_leaves_the_earlier_file(
    good, tmp_path, capsys, monkeypatch, verb, name
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be cut off, too
    output = tmp_path / "out" / name
    output.parent.mkdir()
    output.write_text("earlier")
    with files_of_at_most(60):
        main([verb, str(good), "--output", str(output)])
    assert output.read_text() == "earlier"
    assert [path for path in output.parent.rglob("*") if path.is_file()] == [output]
    *_, line = capsys.readouterr().err.splitlines()  # after those on progress
    assert re.fullmatch(rf"analysis: {output.parent}/\S+: cannot be written: File too large", line)


def test_an_output_that_is_a_link_stays_one(good, tmp_path):
    real, link = tmp_path / "real", tmp_path / "t.md"
    real.write_text("earlier")
    real.chmod(0o664)
    link.symlink_to(real)
    main(["tables", str(good), "--output", str(link)])
    assert link.is_symlink()
    assert "small" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o664
    link = tmp_path / "f.svg"
    link.symlink_to(real)
    main(["figures", str(good), "--output", str(link)])
    assert "<svg" in real.read_text()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("place", ["summary/step_median_s", "cases/case-000/samples/step"])
def test_times_of_half_precision(good, tmp_path, place):
    with h5py.File(good, "r+") as file:
        attributes, shape = dict(file[place].attrs), file[place].shape
        del file[place]
        file.create_dataset(place, shape, "f2", fillvalue=0.5).attrs.update(attributes)
    main(["figures", str(good), "--output", str(tmp_path / "f.svg")])


def test_a_file_that_is_named_twice_counts_once(good, tmp_path):
    (tmp_path / "link.h5").symlink_to(good)
    for name, files in (("once", [good]), ("twice", [good, tmp_path / "link.h5", good])):
        main(["tables", *map(str, files), "--output", str(tmp_path / f"{name}.csv")])
    once, twice = ((tmp_path / f"{name}.csv").read_text("utf-8") for name in ("once", "twice"))
    assert once == twice


def test_an_input_is_not_overwritten(good, refused):
    before = good.read_bytes()
    said = refused("tables", good, "--output", good, "--format", "markdown")
    assert said == f"--output {good}: is one of the files to read; name another"
    assert good.read_bytes() == before


def test_a_file_without_cases(make_file, refused):
    path = make_file([])
    assert refused("tables", path, "--output", "t.md") == f"{path}: no cases"


@pytest.mark.parametrize(
    ("verb", "output", "options", "says"),
    [
        ("tables", "t.doc", [], "use .md, .tex or .csv, or --format"),
        ("tables", "t", [], "use .md, .tex or .csv, or --format"),
        ("tables", "t.md", ["--columns", "peak_byte,x"], "has no column 'peak_byte'"),
        ("figures", "f.eps", [], "use .svg, .pdf or .png, or a folder for all"),
        ("tables", "sweep.h5/below-a-file.md", [], "cannot be written: "),
    ],
)
def test_outputs_that_are_refused(good, tmp_path, refused, verb, output, options, says):
    line = refused(verb, good, "--output", tmp_path / output, *options)
    assert says in line
    assert ("--columns: " in line) == bool(options)
    assert list(tmp_path.iterdir()) == [good]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: tables|figures|report|compare|snapshot"),
        (["reports", "a.h5"], "invalid choice: 'reports'"),
        (["figures", "a.h5"], "required: --output"),
        (["tables", "--output", "t.md"], "required: FILE"),
        (["figures", "a.h5", "--output", ""], "argument --output: needs a value"),
        (["figures", "", "--output", "f.svg"], "argument FILE: needs a value"),
        (["tables", "a.h5", "--output", "t.md", "--format", "word"], "invalid choice: 'word'"),
        (["figures", "a.h5", "--output", "f.svg", "--wide"], "unrecognized arguments: --wide"),
    ],
)
def test_wrong_use(refused, arguments, words):
    assert words in refused(*arguments)


def test_a_full_folder_for_temporary_files(good, tmp_path, capsys, monkeypatch):
    packed = tmp_path / "a.h5.xz"
    packed.write_bytes(lzma.compress(good.read_bytes()))
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with files_of_at_most(5000):
        main(["tables", str(packed), "--output", str(tmp_path / "t.md")])
    said = capsys.readouterr().err
    assert re.fullmatch(
        rf"analysis: {folder}/paceline-\w+\.h5: cannot be written: File too .*\n", said
    )
    assert not list(folder.iterdir())
