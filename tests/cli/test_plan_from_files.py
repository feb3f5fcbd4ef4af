"""`plan --rates` and `paceline-analysis check-plan`: predictions from result files, and their
errors."""

import json
import re
import shutil
from pathlib import Path
from statistics import median

import h5py
import pytest

from analysis import check_plan
from analysis.result_file import decompressed
from conftest import ROOT, made
from plan_output import analysis, check, plan, program, rates

REFERENCE = ROOT / "results/reference"
DDP = REFERENCE / "ddp-course-h200.h5"


def published(name: str) -> Path:
    """A published file, decompressed if it is compressed. name: "model-sizes" or a file's."""
    path = REFERENCE / f"{name.split('-h200')[0]}-h200.h5"
    return path if path.exists() else decompressed(Path(f"{path}.xz"))


SIZES = published("model-sizes")
LINKS = published("collectives-single-node")


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    """A step of a tiny model on the CPU."""
    run = ("model", "--size", "tiny", "--context", 8, "--device", "cpu", "--threads", 1)
    return made(tmp_path_factory.mktemp("measured") / "m.h5", *run, "--warmup", 0, "--steps", 1)


@pytest.fixture
def links(tmp_path):
    """A copy of the published fits of NCCL and MPI, with another latency and bandwidth."""

    def make(latency: float, bandwidth: float) -> Path:
        path = Path(shutil.copy(LINKS, tmp_path / "links.h5"))
        with h5py.File(path, "r+") as file:
            file["fit/latency_s"][:] = latency
            file["fit/bandwidth_bytes_per_s"][:] = bandwidth
        return path

    return make


def test_peaks_of_a_published_run_are_within_2_percent():
    rows = check(published("model-memory"))
    assert rows
    for row in rows:
        assert abs(row["peak_error_percent"]) < 2, row
        ratio = row["predicted_peak_bytes"] / row["measured_peak_bytes"]
        assert row["peak_error_percent"] == pytest.approx(100 * (ratio - 1))
        assert row["predicted_step_s"] is None  # no rates are known


def test_the_table_of_check_plan_fits_a_terminal(monkeypatch):
    monkeypatch.setattr(check_plan, "Program", lambda _: program())
    done = analysis("check-plan", DDP, "--from", SIZES, LINKS)
    assert done.code == 0
    *table, step, peak, _ = done.out.splitlines()
    assert len(table) == 10
    assert max(map(len, table)) <= 100
    rows = check(DDP, SIZES, LINKS)
    errors = sorted(abs(row["step_error_percent"]) for row in rows)
    told = f"median error {median(errors):.1f}%, worst {errors[-1]:.1f}%, of 9 cases"
    assert step == f"step: {told}"
    assert peak == "peak: median error 0.1%, worst 0.1%, of 9 cases"


def test_extrapolations_are_named(paceline):
    files = rates(SIZES, LINKS, DDP)
    model = ("--size", "xl", "--attention", "naive", "--rates", files)
    calibrated = (*model, "--hardware", "h200")
    done = paceline("plan", *calibrated, "--ranks", 8, "--ask", "run", "--run-tokens", 1e9)
    assert "collectives of 8 ranks, fitted on 4" in done.out
    done = paceline("plan", *calibrated)
    line = done.out.splitlines()[-1]
    assert line == "weak scaling on other ranks: collectives fitted on 2"
    done = paceline("plan", *model)
    for what in ("rates", "links"):
        assert f"{what} of NVIDIA H200, not of h100" in done.out.splitlines()


def test_sent_bytes_of_a_measured_run_match_the_prediction(paceline, tmp_path):
    train = ("zero", "--size", "tiny", "--context", 8, "--device", "cpu", "--threads", 1)
    sweep = ("--shard", "none,broadcast,zero1,zero2,fsdp", "--warmup", 1, "--steps", 1)
    done = paceline(*train, *sweep, "--output", "z.h5", ranks=2)
    assert done.code == 0, done.err
    rows = check(tmp_path / "z.h5")
    assert len(rows) == 5
    for row in rows:
        assert abs(row["sent_error_percent"]) < 0.1, row
        assert abs(row["peak_error_percent"]) < 10, row  # padding matters in a tiny model


@pytest.mark.parametrize("verb", ["check-plan", "rates"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            published("attention-pytorch"),
            "holds cases of attention; give files of model, ddp, zero",
        ),
        ("missing.h5", "missing.h5: "),
        (".", ".: is a folder; give result files"),
    ],
    ids=["kind", "missing", "folder"],
)
def test_files_of_the_wrong_kind_are_refused(verb, name, told, tmp_path):
    done = analysis(verb, name, *(("--output", tmp_path / "r.json") if verb == "rates" else ()))
    assert done.code == 2
    assert told in done.err


PUBLISHED = re.findall(
    r"^\| `(\S+)` \| `(\S+)` \| (\d+) \| (\S+)%, (\S+)% \| (\S+)%, (\S+)% \|$",
    (ROOT / "docs/results.md").read_text(),
    re.M,
)


assert len(PUBLISHED) == 6


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=() if row[0] == DDP.name else pytest.mark.long) for row in PUBLISHED],
    ids=lambda row: row[0],
)
def test_the_published_errors_are_those_of_check_plan(row):
    checked, files, cases, *published_errors = row
    rows = check(published(checked), *map(published, files.split(",")))
    assert len(rows) == int(cases)
    errors = [
        sorted(abs(row[f"{what}_error_percent"]) for row in rows) for what in ("step", "peak")
    ]
    shown = [f"{one:.1f}" for own in errors for one in (median(own), own[-1])]
    assert shown == published_errors


FORECAST = re.findall(
    r"^\| `(--size \S.+)` \| (\S+) \| (\S+) \| (\S+) \|$",
    (ROOT / "docs/results.md").read_text(),
    re.M,
)


assert len(FORECAST) == 8
FORECAST_FILES = (
    "model-sizes", "model-batches", "model-flash", "model-profile", "collectives-single-node",
    "ddp-course", "zero-course",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("row", FORECAST, ids=lambda row: row[0])
def test_the_published_forecast_is_what_plan_prints(paceline, row):
    options, *times = row
    files = rates(*map(published, FORECAST_FILES))
    layout = ("--hardware", "h200", "--ranks", 8, "--bucket-mb", 100, "--rates", files)
    scaling = plan(paceline, *layout, *options.split())["scaling"]
    seconds = {step["ranks"]: step["step_s"] for step in scaling}
    shown = [f"{1e3 * seconds[ranks]:.1f}" for ranks in (1, 4, 8)]
    assert all(want in ("-", found) for want, found in zip(times, shown, strict=True))


SCALING = re.findall(
    r"^\| (\S+), (eager|compiled) \| (.+?) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| \S* ?\| "
    r"(\S+) \((\S+)%\) \|$",
    (ROOT / "docs/results.md").read_text(),
    re.M,
)


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "zero"])
def test_the_published_scaling_is_what_check_plan_prints(strategy):
    files = [*map(published, FORECAST_FILES)]
    rows = {ranks: check(published(f"weak-{strategy}-{ranks}"), *files) for ranks in (2, 4)}
    alone = check(published("weak-ddp-1"))
    shown = [row for row in SCALING if row[2].startswith("zero1") == (strategy == "zero")]
    assert len(shown) == len(rows[4]) == {"ddp": 20, "zero": 4}[strategy]
    for row in shown:
        size, execution, exchange, *times, efficiency, predicted, error = row
        kinds = {"no exchange": "-none-none-", "zero1, 25 MB": "-zero1-25-"}
        kind = kinds.get(exchange, "-bucketed-")
        dtype, megabytes = re.match(r"(\w*)[, ]*(\d*)", exchange).groups()
        words = [f"{size}-512-", f"-{execution}-", kind]
        words += [f"-{megabytes}-{dtype}-"] if kind == "-bucketed-" else []

        def own(rows, words=words):
            (found,) = [r for r in rows if all(word in r["case"] for word in words)]
            return found

        first = own(alone, [f"{size}-512-", f"-{execution}-"])
        steps = [first, own(rows[2]), own(rows[4])]
        seconds = [step["measured_step_s"] for step in steps]
        assert times == [f"{1e3 * time:.1f}" for time in seconds], row
        assert efficiency == f"{seconds[0] / seconds[2]:.2f}", row
        assert predicted == f"{1e3 * steps[2]['predicted_step_s']:.1f}", row
        assert error == f"{steps[2]['step_error_percent']:+.1f}", row


def test_a_profiled_step_predicts_the_other_sizes_in_bf16():
    """Rates of products, attention and AdamW are those of the kernels of 2.7b, not of the fit."""
    checked, profiled = (published(f"model-{name}") for name in ("flash", "profile"))
    with_profile, without = (
        max(abs(row["step_error_percent"]) for row in check(checked, *files))
        for files in ((checked, profiled), (checked,))
    )
    assert with_profile < 3
    assert without > 5


@pytest.mark.parametrize("latency", [2e-6, float("nan")])  # NaN: of a single size, in old files
def test_times_that_do_not_grow_with_the_bytes_are_left_out(links, tmp_path, latency):
    path = links(latency, float("inf"))
    output = ("--output", tmp_path / "r.json")
    done = analysis("rates", path, *output)
    assert done.code == 2
    assert f"{path}: holds no fit of all_reduce on 2 ranks or more" in done.err
    if latency > 0:
        told = f"{path}: the times of all_reduce on 2 ranks do not grow with the bytes: left out"
        assert told in done.err
    with h5py.File(path, "r+") as file:
        file["fit/bandwidth_bytes_per_s"][-1] = 1e9
        file["fit/latency_s"][-1] = 1e-5
    assert analysis("rates", path, *output).code == 0
    assert [link["ranks"] for link in json.loads(output[1].read_text())["links"]] == [4]


def test_a_file_without_a_fit_is_refused(links, tmp_path):
    path = links(1e-6, 1e9)
    with h5py.File(path, "r+") as file:
        del file["fit"]
    done = analysis("rates", path, "--output", tmp_path / "r.json")
    assert done.code == 2
    assert f"{path}: holds no fit; measure one with collectives --fit" in done.err


def test_a_fitted_latency_of_0_is_not_blamed_on_an_option(paceline, links):
    path = rates(links(0, 1e9))
    done = paceline("plan", "--ranks", 2, "--rates", path, "--ask", "best-bucket")
    assert done.code == 2
    assert str(path) in done.message
    assert "measure smaller sizes" in done.message
    assert "--latency" not in done.message


def change(document: dict, place: str, value: object) -> None:
    *path, last = [int(word) if word.isdigit() else word for word in place.split("/")]
    for word in path:
        document = document[word]
    if value is None:
        del document[last]
    else:
        document[last] = value


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("steps", None, "has no steps"),
        ("links", 5, "links must be an array"),
        ("contention", [1], "contention must be an object"),
        ("contention/cuda", -0.1, "contention.cuda must be a number, at least 0"),
        ("steps/0", "x", "steps[0] has no device"),
        ("steps/0/group", 5, "steps[0].group must be a text"),
        ("steps/0/rates/head_flops_per_s", 0, "head_flops_per_s must be a number above 0"),
        ("steps/0/rates/blocks_per_s", "fast", "blocks_per_s must be a number above 0"),
        ("steps/0/sizes", {"D 1": [{"tokens": 1}]}, "steps[0].sizes.D 1[0] has no ratio"),
        ("links/1/ranks", 1, "links[1].ranks must be an integer from 2 to 1048576"),
        ("links/1/ranks", 2.5, "links[1].ranks must be an integer from 2 to 1048576"),
        ("links/0/latency_s", None, "links[0] has no latency_s"),
        ("links/0/bandwidth_bytes_per_s", 0, "bandwidth_bytes_per_s must be a number above 0"),
    ],
)
def test_a_bad_field_of_a_file_of_rates_is_named(paceline, tmp_path, place, value, told):
    document = json.loads(rates(SIZES, LINKS, DDP).read_text())
    change(document, place, value)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(document))
    done = paceline("plan", "--rates", path)
    assert done.code == 2
    assert done.message.startswith(f"paceline: {path}: ")
    assert done.message.endswith(told)


@pytest.mark.parametrize("content", [None, "", "{", "[1", "\xff", "[" * 100_000, "1e999"])
def test_what_is_no_file_of_rates_is_refused(paceline, tmp_path, content):
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content, "latin-1")
    for name in (path, tmp_path):
        done = paceline("plan", "--rates", name)
        assert done.code == 2
        assert done.message.endswith("; make it with paceline-analysis rates")


@pytest.mark.parametrize("verb", ["rates", "check-plan"])
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ranks", -1, "--ranks: -1 is out of range"),
        ("heads", 7, "--heads"),
        ("step_median_s", -1, "step_median_s holds no time"),
        ("attention", "none", "'none'"),
        ("status", "oom", "holds no finished case; give a file with a case that is ok"),
        (None, None, "it is not as paceline writes it"),
    ],
)
def test_a_damaged_file_and_its_column_are_named(measured, tmp_path, verb, name, value, says):
    path = Path(shutil.copy(measured, tmp_path / "bad.h5"))
    with h5py.File(path, "r+") as file:
        if name:
            file[f"summary/{name}"][0] = value
        else:
            file["ranks"].clear()
    done = analysis(verb, path, *(("--output", tmp_path / "r.json") if verb == "rates" else ()))
    assert done.code == 2
    assert done.err.startswith(f"analysis: {path}: ")
    assert says in done.err
