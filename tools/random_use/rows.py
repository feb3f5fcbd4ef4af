"""Whether a result file's rows make sense."""

from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np

from options import Use

STATUSES = ("ok", "skipped", "oom")
RUN_ATTRIBUTES = {"status", "reason", "stop_reason", "created"}
STATISTICS = ("min", "ci_low", "median", "ci_high", "p95", "max", "mean", "std")
MAY_BE_ZERO = ("communication_exposed", "communication_total")
TRAINING = (
    "tokens_per_s", "model_tflops_per_s", "gemm_ceiling_tflops_per_s", "mfu_measured",
    "peak_bytes", "predicted_peak_bytes", "setup_s", "rehearsal_s",
    "memory_before_backward_bytes",
)  # fmt: skip
# Figures that a case that ended well always has, and that are above zero.
POSITIVE = {
    "model": TRAINING,
    "ddp": TRAINING,
    "zero": (*TRAINING, "optimizer_state_bytes"),
    "attention": ("forward_tflops_per_s", "both_bandwidth_floor_s", "saved_bytes", "peak_bytes"),
    "collectives": ("link_ceiling_bytes_per_s",),
}
FINITE = {"collectives": ("algbw_bytes_per_s", "busbw_bytes_per_s", "wrong_elements")}
PHASES = {"inference": 1, "forward": 1, "forward-backward": 2, "train-step": 3}
PLACEMENTS = ("all_reduce", "reduce_scatter", "all_gather", "reduce")  # in place or not
WARM = {"model", "ddp", "zero"}  # whose first warm-up sample is the rehearsal
CLOSE = 1e-9

Row = dict[str, object]


class Insane(Exception):
    """What is wrong: a kind, a colon, the rest."""


def require(condition: object, what: str) -> None:
    if not condition:
        raise Insane(f"rows: {what}")


def statuses(path: Path) -> list[str]:
    with h5py.File(path) as file:
        return list(file["summary/status"].asstr()[:])


def reasons(path: Path) -> list[str]:
    """Why cases are not ok, of a file that may not be there."""
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
    """Throws Insane for the first thing that makes no sense."""
    try:
        with h5py.File(path) as file:
            require(file.attrs["experiment"] == use.experiment, "of another experiment")
            require(file.attrs["complete"] == complete, f"complete: {file.attrs['complete']}")
            require(len(file["ranks/rank"]) == use.ranks, "another count of ranks")
            rows = rows_of(file)
            ids = [row["case"] for row in rows]
            require(sorted(ids) == sorted(file["cases"]), "rows and cases differ")
            require(len(set(ids)) == len(ids), "a case has two rows")
            factors = [factors_of(file["cases"][name]) for name in ids]
            require(len(set(factors)) == len(factors), "two rows have equal factors")
            for row in rows:
                check_row(row, file["cases"][row["case"]], use)
    except (OSError, KeyError) as error:
        raise Insane(f"unreadable: {error!r}") from None


def check_factors(name: str, factors: dict[str, object], experiment: str) -> None:
    """A case has the factors that apply to it, and no others."""

    def among(factor: str, *values: object) -> bool:
        return factors.get(factor) in values

    flash = among("attention", "flash")
    splits = among("precision", "fp32") and among("fp32_attention", "bf16x3")
    exchanges = "shard" in factors or not among("sync", "none", None)
    applies = {
        "max_steps": factors["until_ci"] > 0,
        "fp32_attention": flash and among("precision", "fp32"),
        "flash_kernels": flash
        and among("device", "cuda")
        and (splits or among("precision", "bf16", "fp16")),
        "recompute": experiment in WARM and not among("mode", "inference"),
        "bucket_mb": "shard" in factors or among("sync", "bucketed"),
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
    require(status != "skipped" or "--preset" in use.options, f"{name} is skipped: {reason}")
    check_factors(name, dict(case.attrs), use.experiment)
    for factor, value in case.attrs.items():
        if factor in row and factor not in RUN_ATTRIBUTES:
            require(row[factor] == value, f"{name}: {factor} is {value} and {row[factor]}")
    if status != "ok":
        require("samples" not in case, f"{name} is {status} and has samples")
        return
    for figure in POSITIVE.get(use.experiment, ()):
        value = row.get(figure, np.nan)
        absent = (
            row["mode"] in ("inference", "forward")
            if figure == "memory_before_backward_bytes"
            else figure == "link_ceiling_bytes_per_s" and (row["ranks"] == 1 or limited)
        )
        require(absent or (np.isfinite(value) and value > 0), f"{name}: {figure} is {value}")
    for figure in FINITE.get(use.experiment, ()):
        require(np.isfinite(row[figure]), f"{name}: {figure} is {row[figure]}")
    if "loss" in row:
        require(np.isfinite(row["loss"]), f"{name}: loss is {row['loss']}")
    ranks = int(row["ranks"])
    phases = case["samples"]
    if "comm_dtype" in case.attrs:
        for figure in ("communication_calls", "message_bytes", "sent_bytes"):
            least = figure != "sent_bytes" or ranks > 1
            require(row[figure] >= least, f"{name}: {figure} is {row[figure]}")
    if "mode" in row:
        wanted = ["forward", "backward", "optimizer"][: PHASES[str(row["mode"])]]
        require({*wanted, "step"} <= set(phases), f"{name}: phases are {list(phases)}")
    for phase, samples in phases.items():
        check_phase(row, phase, samples[:], ranks)
        warmup = case["samples_warmup"][phase].shape
        expected = (ranks, int(row["warmup"]) + (use.experiment in WARM))
        require(warmup == expected, f"{name}: {phase}'s warm-up has the shape {warmup}")


def check_phase(row: Row, phase: str, samples: np.ndarray, ranks: int) -> None:
    where = f"{row['case']}: {phase}"
    count, steps = samples.shape[1], int(row["steps"])
    most = int(row.get("max_steps", 0)) or 10 * steps
    require(len(samples) == ranks, f"{where} has samples of {len(samples)} ranks of {ranks}")
    enough = steps <= count <= most if row["until_ci"] else count == steps
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
