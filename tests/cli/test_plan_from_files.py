"""`paceline plan --from` and `--check`: predictions from result files, and their errors."""

import re
import shutil
from pathlib import Path

import h5py
import pytest

from analysis.result_file import decompressed
from conftest import ROOT
from plan_output import check, plan

REFERENCE = ROOT / "results/reference"
DDP = REFERENCE / "ddp-course-h200.h5"


def published(name: str) -> Path:
    """A published file, decompressed if it is compressed. name: "model-sizes" or a file's."""
    path = REFERENCE / f"{name.split('-h200')[0]}-h200.h5"
    return path if path.exists() else decompressed(Path(f"{path}.xz"))


SIZES = published("model-sizes")
LINKS = published("collectives-single-node")
BATCHES = published("model-batches")


@pytest.mark.parametrize("name", ["model-sizes", "model-memory", "model-precision", "ddp-course"])
def test_peaks_of_published_runs_are_within_2_percent(paceline, name):
    rows = check(paceline, published(name))
    assert rows
    for row in rows:
        assert abs(row["peak_error_percent"]) < 2, row
        assert row["predicted_step_s"] is None  # no rates are known


def test_steps_are_predicted_from_the_other_cases(paceline):
    errors = [
        abs(row["step_error_percent"])
        for row in check(paceline, SIZES, "--from", f"{SIZES},{LINKS}")
    ]
    assert len(errors) == 20
    assert sorted(errors)[10] < 5
    assert max(errors) < 8
    assert min(errors) > 0  # no case is predicted from itself


def test_data_parallel_steps_are_predicted_from_links_and_contention(paceline):
    rows = check(paceline, DDP, "--from", f"{SIZES},{LINKS},{DDP}")
    errors = sorted(abs(row["step_error_percent"]) for row in rows)
    assert errors[len(errors) // 2] < 5


def test_the_table_of_check_fits_a_terminal(paceline):
    done = paceline("plan", "--check", DDP, "--from", f"{SIZES},{LINKS}")
    assert done.code == 0
    assert max(map(len, done.out.splitlines())) <= 100
    assert "peak: median error" in done.out


def test_extrapolations_are_named(paceline):
    files = f"{SIZES},{LINKS},{DDP}"
    model = ("--size", "xl", "--attention", "naive", "--from", files)
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
    rows = check(paceline, tmp_path / "z.h5")
    assert len(rows) == 5
    for row in rows:
        assert abs(row["sent_error_percent"]) < 0.1, row
        assert abs(row["peak_error_percent"]) < 10, row  # padding matters in a tiny model


@pytest.mark.parametrize("option", ["--check", "--from"])
def test_files_of_the_wrong_kind_are_refused(paceline, option):
    done = paceline("plan", option, published("attention-pytorch"))
    assert done.code == 2
    assert "holds cases of attention; give files of model, ddp, zero" in done.message
    assert paceline("plan", option, "missing.h5").code == 2


def test_errors_are_in_percent_of_the_measured_value(paceline):
    row = check(paceline, SIZES)[0]
    ratio = row["predicted_peak_bytes"] / row["measured_peak_bytes"]
    assert row["peak_error_percent"] == pytest.approx(100 * (ratio - 1))


PUBLISHED = re.findall(
    r"^\| `(\S+)` \| `(\S+)` \| (\d+) \| (\S+)%, (\S+)% \| (\S+)%, (\S+)% \|$",
    (ROOT / "docs/results.md").read_text(),
    re.M,
)


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row[0])
def test_the_published_errors_are_what_check_prints(paceline, row):
    checked, files, cases, *errors = row
    calibration = ",".join(str(published(name)) for name in files.split(","))
    done = paceline("plan", "--check", published(checked), "--from", calibration)
    assert done.code == 0, done.err
    for quantity, (median, worst) in {"step": errors[:2], "peak": errors[2:]}.items():
        text = f"{quantity}: median error {median}%, worst {worst}%, of {cases} cases"
        assert text in done.out


def test_all_rows_of_the_published_errors_are_parsed():
    assert len(PUBLISHED) == 6


FORECAST = re.findall(
    r"^\| `(--size \S.+)` \| (\S+) \| (\S+) \| (\S+) \|$",
    (ROOT / "docs/results.md").read_text(),
    re.M,
)


FORECAST_FILES = (
    "model-sizes", "model-batches", "model-flash", "model-profile", "collectives-single-node",
    "ddp-course", "zero-course",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("row", FORECAST, ids=lambda row: row[0])
def test_the_published_forecast_is_what_plan_prints(paceline, row):
    options, *times = row
    files = ",".join(str(published(name)) for name in FORECAST_FILES)
    layout = ("--hardware", "h200", "--ranks", 8, "--bucket-mb", 100, "--from", files)
    scaling = plan(paceline, *layout, *options.split())["scaling"]
    seconds = {step["ranks"]: step["step_s"] for step in scaling}
    shown = [f"{1e3 * seconds[ranks]:.1f}" for ranks in (1, 4, 8)]
    assert all(want in ("-", found) for want, found in zip(times, shown, strict=True))


def test_all_rows_of_the_published_forecast_are_parsed():
    assert len(FORECAST) == 8


SCALING = re.findall(
    r"^\| (\S+), (eager|compiled) \| (.+?) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| \S* ?\| "
    r"(\S+) \((\S+)%\) \|$",
    (ROOT / "docs/results.md").read_text(),
    re.M,
)


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["ddp", "zero"])
def test_the_published_scaling_is_what_check_prints(paceline, strategy):
    calibration = ",".join(str(published(name)) for name in FORECAST_FILES)
    rows = {ranks: check(paceline, published(f"weak-{strategy}-{ranks}"), "--from", calibration)
            for ranks in (2, 4)}  # fmt: skip
    alone = check(paceline, published("weak-ddp-1"))
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


@pytest.mark.parametrize(
    ("checked", "files", "cases"),
    [(SIZES, (SIZES,), 20), (SIZES, (SIZES, BATCHES), 20), (BATCHES, (SIZES, BATCHES), 10)],
    ids=["sizes from sizes", "sizes from both", "batches from both"],
)
def test_steps_of_one_rank_are_predicted_from_the_others_within_five_percent(
    paceline, checked, files, cases
):
    rows = check(paceline, checked, "--from", ",".join(map(str, files)))
    errors = [row["step_error_percent"] for row in rows]
    assert len(errors) == cases
    assert max(map(abs, errors)) < 5


def test_a_profiled_step_predicts_the_other_sizes_in_bf16(paceline):
    """Rates of products, attention and AdamW are those of the kernels of 2.7b, not of the fit."""
    checked, profiled = (published(f"model-{name}") for name in ("flash", "profile"))

    def worst(files: str) -> float:
        rows = check(paceline, checked, "--from", files)
        assert len(rows) == 10
        return max(abs(row["step_error_percent"]) for row in rows)

    assert worst(f"{checked},{profiled}") < 3
    assert worst(str(checked)) > 5


@pytest.mark.parametrize("execution", ["eager", "compiled"])
def test_rates_are_those_of_the_profiled_kernels(paceline, execution):
    files = ",".join(str(published(f"model-{name}")) for name in ("flash", "profile"))
    case = ("--size", "xl", "--context", 512, "--precision", "bf16", "--attention", "flash")
    (row,) = plan(
        paceline, *case, "--exec", execution, "--hardware", "h200", "--from", files
    )["step_time"]  # fmt: skip
    products_and_attention = 24.36e12, 0.564e12  # FLOPs
    rates = 6.85e14, 2.2e14  # those of 2.7b's kernels
    seconds = sum(work / rate for work, rate in zip(products_and_attention, rates, strict=True))
    assert row["products_s"] == pytest.approx(seconds, rel=0.05)


def test_contention_adds_time_for_hidden_collectives(paceline):
    layout = ("--size", "xl", "--attention", "naive", "--ranks", 2)
    times = []
    for files in (f"{SIZES},{LINKS}", f"{SIZES},{LINKS},{DDP}"):
        (row,) = plan(paceline, *layout, "--from", files)["step_time"]
        parts = ("products_s", "traffic_s", "fixed_s", "exposed_s")
        times.append(row["step_s"] - sum(row[part] for part in parts))
    assert times[0] == pytest.approx(0, abs=1e-9)
    assert times[1] > 1e-3


def test_weak_scaling_from_one_rank_uses_the_fitted_link(paceline):
    model = ("--size", "xl", "--attention", "naive", "--hardware", "h200")
    files = ("--from", f"{SIZES},{LINKS},{DDP}")
    one = plan(paceline, *model, *files)["scaling"]
    assert one[1] == plan(paceline, *model, *files, "--ranks", 2)["scaling"][1]
    assert one[1] != plan(paceline, *model, "--from", SIZES)["scaling"][1]


def test_files_without_a_finished_case_are_refused(paceline, tmp_path):
    run = ("model", "--size", "tiny", "--context", 8, "--device", "cpu", "--threads", 1)
    done = paceline(*run, "--memory-limit", "1MB", "--warmup", 0, "--steps", 1, "--output", "o.h5")
    assert (tmp_path / "o.h5").exists(), done.err
    for option in ("--from", "--check"):
        done = paceline("plan", option, "o.h5")
        assert done.code == 2
        assert "o.h5: holds no finished case; give a file with a case that is ok" in done.message


def test_rates_measured_on_a_cpu_are_not_used_for_a_gpu(paceline, tmp_path):
    run = ("model", "--size", "tiny", "--context", 8, "--device", "cpu", "--threads", 1)
    done = paceline(*run, "--warmup", 1, "--steps", 1, "--output", "c.h5")
    assert done.code == 0, done.err
    layout = ("--size", "tiny", "--context", 8, "--attention", "naive")
    calibrated = paceline("plan", *layout, "--from", "c.h5")
    assert "rates of cpu, not of h100: not used" in calibrated.out.splitlines()
    assert (
        plan(paceline, *layout, "--from", "c.h5")["step_time"]
        == plan(paceline, *layout)["step_time"]
    )


@pytest.mark.parametrize("option", ["--check", "--from"])
def test_a_folder_is_refused_in_one_line(paceline, option):
    done = paceline("plan", option, ".")
    assert done.code == 2
    assert done.err.splitlines() == ["paceline: .: is a folder; give a result file"]


@pytest.fixture
def links(tmp_path):
    """A copy of the published fits of NCCL, with another latency and bandwidth."""

    def make(latency: float, bandwidth: float) -> Path:
        path = Path(shutil.copy(LINKS, tmp_path / "links.h5"))
        with h5py.File(path, "r+") as file:
            file["fit/latency_s"][:] = latency
            file["fit/bandwidth_bytes_per_s"][:] = bandwidth
        return path

    return make


def test_times_that_do_not_grow_with_the_bytes_are_refused(paceline, links):
    path = links(2e-6, float("inf"))
    for what in ((), ("--ask", "best-bucket,compute-bound")):
        done = paceline("plan", "--ranks", 2, "--from", path, *what)
        assert done.code == 2
        assert done.out == ""
        (line,) = done.err.splitlines()
        assert f"{path}: the times of all_reduce on 2 ranks do not grow with the bytes" in line


def test_a_fitted_latency_of_0_is_not_blamed_on_an_option(paceline, links):
    path = links(0, 1e9)
    done = paceline("plan", "--ranks", 2, "--from", path, "--ask", "best-bucket")
    assert done.code == 2
    assert str(path) in done.message
    assert "measure smaller sizes" in done.message
    assert "--latency" not in done.message
