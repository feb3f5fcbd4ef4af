"""Checks that the rows of a result file are plausible and consistent."""

from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from random_use.lines import TRAINING as TRAINS
from random_use.lines import Use
from result_files import undescribed

STATUSES = ("ok", "skipped", "oom", "diverged")
RUN_ATTRIBUTES = {"status", "reason", "stop_reason", "warmup_reason", "created", "run", "warnings"}
STATISTICS = ("min", "ci_low", "median", "ci_high", "p95", "max", "mean", "std")
MAY_BE_ZERO = ("communication_exposed", "communication_total")
TRAINING = (
    "tokens_per_s", "model_tflops_per_s", "gemm_ceiling_tflops_per_s", "peak_bytes",
    "predicted_peak_bytes", "setup_s", "rehearsal_s", "memory_before_backward_bytes",
)  # fmt: skip
# Columns that every ok case has, with values above zero.
POSITIVE = {
    "model": TRAINING,
    "ddp": TRAINING,
    "zero": (*TRAINING, "optimizer_state_bytes"),
    "attention": ("forward_tflops_per_s", "saved_bytes", "peak_bytes"),
    "collectives": ("link_ceiling_bytes_per_s",),
}
# Columns above zero, or NaN if the measured ceiling is uncertain.
UNSURE = ("mfu_measured", "both_bandwidth_floor_s")
FINITE = {"collectives": ("algbw_bytes_per_s", "busbw_bytes_per_s", "wrong_elements")}
PHASES = {"inference": 1, "forward": 1, "forward-backward": 2, "train-step": 3}
PLACEMENTS = ("all_reduce", "reduce_scatter", "all_gather", "reduce")  # operations with --in-place
VERIFIED = ("verify_gradient_error", "verify_sgd_error", "verify_adamw_error")
MAX_STEPS = 1e6  # with --min-time alone
CLOSE = 1e-9

Row = dict[str, object]


class Insane(Exception):
    """An implausible result. The message is the kind of failure, a colon and the details."""


def require(condition: object, what: str) -> None:
    if not condition:
        raise Insane(f"rows: {what}")


def statuses(path: Path) -> list[str]:
    with h5py.File(path) as file:
        return list(file["summary/status"].asstr()[:])


def reasons(path: Path) -> list[str]:
    """The reasons of cases that are not ok; empty if the file does not exist."""
    if not path.exists():
        return []
    with h5py.File(path) as file:
        return sorted({reason for reason in file["summary/reason"].asstr()[:] if reason})


def rows_of(file: h5py.File) -> list[Row]:
    columns = {}
    for name, dataset in file["summary"].items():
        text = h5py.check_string_dtype(dataset.dtype)
        columns[name] = (dataset.asstr()[:] if text else dataset[:]).tolist()
    require(len({len(column) for column in columns.values()}) == 1, "columns differ in length")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def check_file(path: Path, use: Use, complete: bool = True) -> None:
    """Raises Insane for the first implausible value."""
    try:
        with h5py.File(path) as file:
            require(file.attrs["experiment"] == use.experiment, "of another experiment")
            require(file.attrs["complete"] == complete, f"complete: {file.attrs['complete']}")
            require(len(file["ranks/rank"]) == use.world, "another count of ranks")
            rows = rows_of(file)
            ids = [row["case"] for row in rows]
            require(sorted(ids) == sorted(file["cases"]), "rows and cases differ")
            require(len(set(ids)) == len(ids), "a case has two rows")
            factors = [factors_of(file["cases"][name]) for name in ids]
            require(len(set(factors)) == len(factors), "two rows have equal factors")
            for row in rows:
                check_row(row, file["cases"][row["case"]], use)
            missing = undescribed(path, described=set())
            require(not missing, f"without description: {missing}")
    except (OSError, KeyError) as error:
        raise Insane(f"unreadable: {error!r}") from None


def check_factors(name: str, factors: dict[str, object], experiment: str) -> None:
    """Requires that a case has the factors that apply to it, and no others."""
    if experiment == "precision":
        return

    def among(factor: str, *values: object) -> bool:
        return factors.get(factor) in values

    flash = among("attention", "flash")
    splits = among("precision", "fp32") and among("fp32_attention", "bf16x3")
    exchanges = "shard" in factors or not among("sync", "none", None)
    applies = {
        "max_steps": factors["until_ci"] > 0 or factors["min_time"] > 0,
        "fp32_attention": flash and among("precision", "fp32"),
        "flash_kernels": flash
        and among("device", "cuda")
        and (splits or among("precision", "bf16", "fp16")),
        "optimizer": among("mode", "train-step"),
        "recompute": experiment in TRAINS and not among("mode", "inference"),
        "bucket_mb": among("sync", "bucketed")
        or ("shard" in factors and not among("shard", "fsdp")),
        "comm_dtype": exchanges,
        "registration": exchanges or experiment == "collectives",
        "verify": exchanges,
        "redop": among("op", "all_reduce", "reduce_scatter", "reduce"),
        "in_place": among("op", *PLACEMENTS),
    }
    for factor, does in applies.items():
        require((factor in factors) == does, f"{name}: {factor} {'is not' if does else 'is'} there")


def factors_of(case: h5py.Group) -> tuple[str, ...]:
    return tuple(sorted(f"{k}={v}" for k, v in case.attrs.items() if k not in RUN_ATTRIBUTES))


def check_row(row: Row, case: h5py.Group, use: Use) -> None:
    name, status, reason = row["case"], row["status"], row["reason"]
    require(status in STATUSES, f"{name} is {status}: {reason}")
    require((status == "ok") == (reason == ""), f"{name} is {status} for the reason '{reason}'")
    limited = "--memory-limit" in use.options
    require(status != "oom" or limited, f"{name} is oom without a limit: {reason}")
    may_skip = "--preset" in use.options or "serves head dimensions" in reason
    require(status != "skipped" or may_skip, f"{name} is skipped: {reason}")
    check_factors(name, dict(case.attrs), use.experiment)
    for factor, value in case.attrs.items():
        if factor in row and factor not in RUN_ATTRIBUTES:
            require(row[factor] == value, f"{name}: {factor} is {value} and {row[factor]}")
    if status == "diverged":
        require(use.may_diverge, f"{name} is diverged: {reason}")
        return
    if status != "ok":
        require("samples" not in case, f"{name} is {status} and has samples")
        return
    check_figures(row, case, use)
    if use.experiment != "precision":
        check_samples(row, case, use)


def check_figures(row: Row, case: h5py.Group, use: Use) -> None:
    """Checks bytes, seconds, rates, the loss and the errors of --verify of an ok case."""
    name = row["case"]
    for figure in POSITIVE.get(use.experiment, ()):
        value = row.get(figure, np.nan)
        absent = (
            row["mode"] in ("inference", "forward")
            if figure == "memory_before_backward_bytes"
            else figure == "link_ceiling_bytes_per_s"
            and (row["ranks"] == 1 or "--memory-limit" in use.options)
        )
        require(absent or (np.isfinite(value) and value > 0), f"{name}: {figure} is {value}")
    finite = [*FINITE.get(use.experiment, ()), *(["loss"] if use.experiment in TRAINS else [])]
    if case.attrs.get("verify", 0) > 0:
        finite += VERIFIED
    for figure in finite:
        value = row.get(figure, np.nan)
        require(np.isfinite(value), f"{name}: {figure} is {value}")
    for figure in UNSURE:
        require(not row.get(figure, np.nan) <= 0, f"{name}: {figure} is {row.get(figure)}")
    for figure, value in row.items():
        if isinstance(value, float) and figure.endswith(("_bytes", "_s", "_elements")):
            require(not value < 0, f"{name}: {figure} is {value}")
    if "comm_dtype" in case.attrs:
        for figure in ("communication_calls", "message_bytes", "sent_bytes"):
            least = figure != "sent_bytes" or row["ranks"] > 1
            require(row[figure] >= least, f"{name}: {figure} is {row[figure]}")


def check_samples(row: Row, case: h5py.Group, use: Use) -> None:
    name, ranks, phases = row["case"], int(row["ranks"]), case["samples"]
    if "mode" in row:
        wanted = ["forward", "backward", "optimizer"][: PHASES[str(row["mode"])]]
        require({*wanted, "step"} <= set(phases), f"{name}: phases are {list(phases)}")
    trains = use.experiment in TRAINS  # the rehearsal, of several ranks its first step
    least = int(row["warmup"]) + trains
    most = max(least, int(row["max_warmup"]) + trains) + (6 if trains and ranks == 1 else 0)
    for phase, samples in phases.items():
        check_phase(row, phase, samples[:], ranks)
        warmup = case["samples_warmup"][phase].shape
        fits = warmup[0] == ranks and least <= warmup[1] <= most
        require(fits, f"{name}: {phase}'s warm-up has the shape {warmup}")


def check_phase(row: Row, phase: str, samples: np.ndarray, ranks: int) -> None:
    where = f"{row['case']}: {phase}"
    count, steps = samples.shape[1], int(row["steps"])
    longer = row["until_ci"] > 0 or row["min_time"] > 0
    capped = row["until_ci"] > 0 and not row["min_time"] > 0  # --min-time alone has no limit
    most = int(row.get("max_steps", 0)) or (10 * steps if capped else MAX_STEPS)
    require(len(samples) == ranks, f"{where} has samples of {len(samples)} ranks of {ranks}")
    enough = steps <= count <= most if longer else count == steps
    require(enough, f"{where} has {count} samples, {steps} to {most} were asked for")
    least = 0 if phase in MAY_BE_ZERO else np.nextafter(0, 1)
    require(np.isfinite(samples).all(), f"{where} has samples that are not finite")
    require((samples >= least).all(), f"{where} has a sample of {samples.min()} s")
    slowest = np.max(samples, axis=0)
    found = {name: float(row[f"{phase}_{name}_s"]) for name in STATISTICS}
    expected = {"median": np.median(slowest), "mean": slowest.mean(), "min": slowest.min()}
    expected["max"] = slowest.max()
    for name, value in expected.items():
        require(np.isclose(found[name], value, CLOSE, 0), f"{where}: {name} is {found[name]}")
    in_order(where, [found[name] for name in ("min", "ci_low", "median", "ci_high", "max")])
    in_order(where, [found[name] for name in ("median", "p95", "max")])
    has_interval = not np.isnan(found["ci_low"]) and not np.isnan(found["ci_high"])
    require(has_interval == (count >= 6), f"{where}: an interval of {count} samples")
    require(np.isnan(found["std"]) == (count < 2), f"{where}: std of {count} is {found['std']}")


def in_order(where: str, values: Sequence[float]) -> None:
    present = [value for value in values if not np.isnan(value)]
    require(present == sorted(present), f"{where}: not in order: {values}")
