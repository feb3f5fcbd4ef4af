"""What `paceline plan --rates` and `ddp --predict` take from result files: the rates of measured
steps, the links of `collectives --fit`, and the cost of overlapped collectives."""

import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from shutil import which
from tempfile import gettempdir

import h5py
import numpy as np
import pandas as pd

from . import profile_of_trace, temporary_files
from .formatting import printable, text
from .hdf5_file import warn
from .output import write_text
from .result_file import ResultError, opened, read_table, texts
from .results import with_columns

TRAINING = ("model", "ddp", "zero")
# The factors that a plan depends on, as its options.
PLANNED = (
    "context", "batch_size", "precision", "attention", "fp32_attention", "exec", "mode",
    "optimizer", "recompute", "d_model", "d_ff", "layers", "heads", "vocab", "sync", "shard",
    "bucket_mb", "comm_dtype", "prefetch", "reshard", "ranks",
)  # fmt: skip
MEASURED = {"step_s": "step_median_s", "peak_bytes": "peak_bytes", "sent_bytes": "sent_bytes"}
# The kinds of work, as `plan --ask work` names them; WEIGHTS are products with weights, by shape.
WEIGHTS = ("projection_flops", "feed_forward_flops", "head_flops")
KINDS = (
    *WEIGHTS, "attention_flops", "parameter_bytes", "activation_bytes", "blocks", "heads",
)  # fmt: skip
# The collectives of a training step: a fit that differs in fewer of these is preferred.
LIKE_TRAINING = {
    "redop": "sum", "cache": "warm", "cadence": "back-to-back", "registration": "symmetric",
    "in_place": "yes",
}  # fmt: skip
# A device without a data sheet has no limits.
WITHOUT_SHEET = ("--memory", "1TB", "--peak-tflops", "1e9", "--link-bandwidth", "1TB")


@dataclass
class Program:
    """paceline, which knows the closed forms."""

    path: Path
    known: dict[str, bool] = field(default_factory=dict)  # devices with a data sheet
    told: dict[tuple, dict] = field(default_factory=dict)  # answers by plan, or plan and rates

    def __post_init__(self) -> None:
        if not which(self.path):
            raise ResultError(f"{self.path}: is no program; name paceline with --paceline")

    def plan(self, *options: str) -> subprocess.CompletedProcess[str]:
        words = [self.path, "plan", *options, "--json"]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def has_sheet(self, device: str) -> bool:
        if device not in self.known:
            words = ("--hardware", device, "--precision", "bf16", "--ask", "memory")
            self.known[device] = self.plan(*words).returncode == 0
        return self.known[device]

    def ask(self, step: "Step", questions: str, *more: str) -> dict:
        sheet = () if self.has_sheet(step.device) else WITHOUT_SHEET
        words = (*step.options, "--hardware", step.device, *sheet, "--ask", questions, *more)
        done = self.plan(*words)
        if done.returncode != 0:
            why = done.stderr.strip().removeprefix("paceline: ")
            raise ResultError(f"{step.path}: {printable(step.case)} cannot be planned: {why}")
        found: dict = {}
        for line in done.stdout.splitlines():
            found |= json.loads(line)
        return found


@dataclass
class Step:
    """A finished case of `model`, `ddp` or `zero`."""

    path: Path
    device: str  # "cpu", or the GPU's model
    case: str
    options: tuple[str, ...]  # of its plan
    measured: dict[str, float]  # step_s, peak_bytes, sent_bytes
    kernels: dict[str, float]  # seconds by kind of work, of --profile
    program: Program

    @property
    def plan(self) -> dict:
        told = self.program.told
        if self.key not in told:
            told[self.key] = self.program.ask(self, "work,memory,step")
        return told[self.key]

    @property
    def key(self) -> tuple:
        """Equal for cases of the same plan, such as those that differ in the warm-up."""
        return self.device, *self.options

    @property
    def exchanges(self) -> bool:
        return not {("--ranks", "1"), ("--sync", "none")} & set(self.pairs)

    @property
    def is_plain(self) -> bool:
        return dict(self.pairs).get("--mode", "train-step") == "train-step" and (
            dict(self.pairs).get("--optimizer", "serial") == "serial"
        )

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return list(zip(self.options[::2], self.options[1::2], strict=True))

    @property
    def work(self) -> np.ndarray:
        return np.array([self.plan[kind] for kind in KINDS])

    @property
    def limits(self) -> np.ndarray:
        """The least seconds of a unit of each kind, by the data sheet."""
        if not self.program.has_sheet(self.device):
            return np.zeros(len(KINDS))
        rates = [self.plan[f"{kind}_per_s"] for kind in KINDS]
        return np.array([1 / rate if rate else 0.0 for rate in rates])

    @property
    def rows(self) -> list[tuple[np.ndarray, float]]:
        """Work and seconds: of the whole step, then of its kernels by kind."""
        found = [(self.work, self.measured["step_s"])]
        for kind, seconds in self.kernels.items():
            own = {kind, "heads"} if kind == "attention_flops" else {kind}
            part = np.where(np.isin(KINDS, list(own)), self.work, 0)
            if seconds > 0 and self.plan[kind] > 0:
                found.append((part, seconds))
        return found


def options_of(experiment: str, row: dict) -> tuple[str, ...]:
    """The options of the case's plan."""
    values = {name: row[name] for name in PLANNED if text(row.get(name, "")) not in ("", "nan")}
    if experiment == "model":
        values["sync"] = "none"
    if values.get("shard") == "none":
        del values["shard"]
        values["sync"] = "bucketed"
    words = []
    for name, value in sorted(values.items()):
        whole = isinstance(value, float) and value.is_integer()
        words += [f"--{name.replace('_', '-')}", str(int(value) if whole else value)]
    return tuple(words)


def kernel_seconds(scopes: pd.DataFrame) -> dict[str, float]:
    """Rank 0's operations by kind of work. Those with FLOPs are products; others of the optimizer
    move parameters, and the rest move activations."""
    own = scopes[(scopes["operation"] == 1) & (scopes["rank"] == 0)]
    has, product = own["scope"].str.contains, own["flops"] > 0
    kinds = np.select(
        [
            product & has("/scaled dot product attention/"),
            product & has("/attention/"),
            product & has("/ffn/"),
            product,
            own["scope"].str.startswith("optimizer/"),
        ],
        ["attention_flops", *WEIGHTS, "parameter_bytes"],
        "activation_bytes",
    )
    return own["total"].groupby(kinds).sum().to_dict()


def device_in(file: h5py.File) -> str:
    kind, device = (texts(file[f"ranks/{name}"])[0] for name in ("device_kind", "device"))
    return kind if kind == "cpu" else device


def steps_in(path: Path, file: h5py.File, program: Program) -> list[Step]:
    """The finished cases of a file of `model`, `ddp` or `zero`."""
    experiment = text(file.attrs.get("experiment", ""))
    if experiment not in TRAINING:
        raise ResultError(
            f"{path}: holds cases of {experiment}; give files of {', '.join(TRAINING)}"
        )
    steps = []
    frame = with_columns(read_table(path, file["summary"])[0])
    for row in frame[frame["status"] == "ok"].to_dict("records"):
        measured = {name: row.get(column, np.nan) for name, column in MEASURED.items()}
        if not measured["step_s"] > 0:
            raise ResultError(f"{path}: {row['case']}: step_median_s holds no time")
        profile = profile_of_trace.of(path, file, file.get(f"cases/{row['case']}", {}))
        scopes = profile.tables.get(profile_of_trace.SCOPES)
        kernels = {} if scopes is None else kernel_seconds(scopes)
        options = options_of(experiment, row)
        steps.append(Step(path, device_in(file), row["case"], options, measured, kernels, program))
    if not steps:
        raise ResultError(f"{path}: holds no finished case; give a file with a case that is ok")
    return steps


def links_in(path: Path, file: h5py.File) -> pd.DataFrame:
    """The fits of `collectives --fit` on two ranks or more."""
    if "fit" not in file:
        raise ResultError(f"{path}: holds no fit; measure one with collectives --fit")
    links = read_table(path, file["fit"])[0].dropna(subset="latency_s")
    links = links[links["ranks"] > 1]
    flat = np.isinf(links["bandwidth_bytes_per_s"])
    for link in links[flat].itertuples():
        warn(
            f"{path}: the times of {link.op} on {link.ranks} ranks do not grow with the bytes: "
            "left out; measure more or larger sizes with collectives --fit"
        )
    links = links[~flat]
    if not (links["op"] == "all_reduce").any():
        raise ResultError(
            f"{path}: holds no fit of all_reduce on 2 ranks or more; measure one with "
            "collectives --fit"
        )
    return links.assign(device=device_in(file))


def preferred(links: pd.DataFrame) -> list[dict]:
    """Of the fits of an operation, dtype, backend and number of ranks the one most like training's
    collectives."""
    keys = [links[name] != value for name, value in LIKE_TRAINING.items()]
    order = [*keys, links["redop"], links["cadence"], links["dtype"]]
    links = links.iloc[np.lexsort([column.to_numpy() for column in reversed(order)])]
    links = links.drop_duplicates(["backend", "op", "dtype", "ranks"])
    names = ["device", "backend", "op", "dtype", "redop", "cache", "ranks", "latency_s",
             "bandwidth_bytes_per_s"]  # fmt: skip
    return links[names].to_dict("records")


def tells_heads(work: np.ndarray) -> bool:
    """Whether the rows separate the time of a head from that of its T x T products (contexts differ
    fourfold) and from that of a block (heads of a block differ fourfold)."""

    def spread(part: str, whole: str) -> float:
        a, b = (work[:, KINDS.index(kind)] for kind in (part, whole))
        ratios = a[(a > 0) & (b > 0)] / b[(a > 0) & (b > 0)]
        return ratios.max() / ratios.min() if ratios.size else 0

    return spread("attention_flops", "heads") >= 16 and spread("heads", "blocks") >= 4


def fitted(work: np.ndarray, seconds: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The seconds of a unit of each kind of work: least squares of relative errors, none below
    `least`. As many kinds are fitted as rows have one kind alone, and one for every two that mix
    kinds, at least one; of all such subsets that with the least error. Products with weights share
    their seconds unless rows have those of one shape alone."""
    a = work / seconds[:, None]
    alone = np.count_nonzero(work, axis=1) == 1
    kinds_alone = set(work[alone].argmax(axis=1))
    shares = not kinds_alone & set(range(len(WEIGHTS)))
    if shares:
        a[:, 0] = a[:, : len(WEIGHTS)].sum(axis=1)
        a[:, 1 : len(WEIGHTS)] = 0
    most = max(1, len(kinds_alone) + np.count_nonzero(~alone) // 2)
    columns = [
        k for k in range(len(KINDS) if tells_heads(work) else len(KINDS) - 1) if a[:, k].any()
    ]
    rest = 1 - a @ least
    best, least_error = least, rest @ rest
    for count in range(1, min(most, len(columns)) + 1):
        for chosen in map(list, combinations(columns, count)):
            scale = np.linalg.norm(a[:, chosen], axis=0)
            weights, _, rank, _ = np.linalg.lstsq(a[:, chosen] / scale, rest, rcond=1e-6)
            if rank < count or (weights < 0).any():
                continue
            found = least.copy()
            found[chosen] += weights / scale
            error = ((a @ found - 1) ** 2).sum()
            if error + 1e-18 < least_error:
                best, least_error = found, error
    if shares:
        best[: len(WEIGHTS)] = best[0]
    return best


def step_rates(steps: Iterable[Step]) -> list[dict]:
    """Of cases on one rank or without exchange: rates by device and kind of step, and by model size
    the ratio of measured to fitted time over the tokens of a rank."""
    groups: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        if step.is_plain and not step.exchanges:
            groups.setdefault((step.device, step.plan["group"]), []).append(step)
    found = []
    for (device, group), own in sorted(groups.items()):
        work, seconds = map(np.array, zip(*[row for s in own for row in s.rows], strict=True))
        unit = fitted(work, seconds, own[0].limits)
        sizes: dict[str, list[dict]] = {}
        for step in sorted(own, key=lambda step: step.plan["tokens"]):
            ratio = step.measured["step_s"] / (unit @ step.work)
            sizes.setdefault(step.plan["model"], []).append(
                {"tokens": step.plan["tokens"], "ratio": ratio}
            )
        rates = {
            f"{kind}_per_s": 1 / u if u > 0 else None for kind, u in zip(KINDS, unit, strict=True)
        }
        found.append({"device": device, "group": group, "rates": rates, "sizes": sizes})
    return found


def contention(steps: Iterable[Step], document: dict) -> dict[str, float]:
    """By kind of device the median excess of steps over their prediction without it, as a fraction
    of the collectives that overlap with computation."""
    groups = {rates["group"] for rates in document["steps"]}
    parts: dict[str, list[float]] = {}
    for step in steps:
        if not step.exchanges or not step.is_plain or step.plan["group"] not in groups:
            continue
        told = predicted(step, document)
        hidden = told["exchange_s"] - told["exposed_s"]
        if hidden > told["exposed_s"]:  # else too little overlaps to tell
            part = max(0.0, (step.measured["step_s"] - told["step_s"]) / hidden)
            parts.setdefault(step.plan["group"].split()[0], []).append(part)
    return {kind: float(np.median(own)) for kind, own in parts.items()}


def predicted(step: Step, document: dict) -> dict:
    """The parts of the step's time by these rates."""
    content = json.dumps(document)
    told = step.program.told
    if (step.key, content) not in told:
        rates = temporary_files.create(Path(gettempdir()), "paceline-", ".json")
        try:
            rates.write_text(content, "utf-8")
            told[step.key, content] = step.program.ask(step, "step", "--rates", str(rates))
        finally:
            temporary_files.remove(rates)
    return told[step.key, content]


def fit(steps: Sequence[Step], links: list[dict]) -> dict:
    document = {"steps": step_rates(steps), "links": links, "contention": {}}
    return document | {"contention": contention(steps, document)}


def read(files: Iterable[Path], program: Program) -> tuple[list[Step], list[dict]]:
    steps, links = [], []
    for path in files:
        with opened(path) as file:
            if text(file.attrs.get("experiment", "")) == "collectives":
                links.append(links_in(path, file))
            else:
                steps += steps_in(path, file, program)
    return steps, preferred(pd.concat(links)) if links else []


def write(files: Sequence[Path], output: Path, paceline: Path) -> list[Path]:
    document = fit(*read(files, Program(paceline)))
    write_text(output, json.dumps(document, indent=1, allow_nan=False) + "\n")
    return [output]
