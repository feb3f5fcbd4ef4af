"""Writes timelines of profiled cases: a small transformer on simulated ranks and streams."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import h5py
import numpy as np

from synthetic import write_column

US = 1e-6
KERNELS = {
    "matmul": "void gemm<128, 128>(float const*, float const*, float*)",
    "all_reduce": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
}
ACTIVITIES = ("kernel", "copy", "memset", "launch", "call")
Row = dict[str, Any]


class Recorder:
    """One simulated rank: a host that launches work, and streams that execute it in order. Work
    launched outside a profiled step is captured into a graph, which replay() launches."""

    def __init__(self, rank: int, late: float = 0.0, source: str = "cupti") -> None:
        self.rank, self.source = rank, source
        self.on_gpu = source == "cupti"
        self.compute, self.communication = (7, 20) if self.on_gpu else (0, 1)
        self.random = np.random.default_rng(rank)
        self.host = late
        self.free: dict[int, float] = {}
        self.step, self.correlation = -1, 100
        self.path: list[str] = []
        self.open = [-1]
        self.captured: list[tuple] = []
        self.spans: list[Row] = []
        self.activities: list[Row] = []
        self.steps: list[Row] = []

    def tick(self, microseconds: float) -> float:
        """Advances the host clock and returns it."""
        self.host = round(self.host + microseconds * US, 9)
        return self.host

    @contextmanager
    def scope(self, name: str, operation: int = 0, elements: int = 0) -> Iterator[None]:
        self.path.append(name)
        self.open.append(len(self.spans))
        span = {
            "rank": self.rank, "step": self.step, "path": "/".join(self.path),
            "operation": operation, "begin": self.tick(0.3), "end": np.nan, "flops": 0.0,
            "bytes": 0.0, "elements": elements, "dtype": "float32" if elements else "",
        }  # fmt: skip
        self.spans.append(span)
        yield
        span["end"] = self.tick(0.4)
        self.path.pop()
        self.open.pop()

    @contextmanager
    def profiled_step(self, step: int) -> Iterator[None]:
        self.step, begin = step, self.host
        yield
        self.host = max(self.host, *self.free.values())  # device synchronization
        row = {"rank": self.rank, "step": step, "begin": begin, "end": self.tick(1)}
        self.steps.append(row)

    def operation(
        self, name: str, microseconds: float, stream: int | None = None, elements: int = 0
    ) -> None:
        stream = self.compute if stream is None else stream
        with self.scope(name, 1, elements):
            kernel = KERNELS.get(name, name) if self.on_gpu else name
            self.launch("cudaLaunchKernel", [("kernel", kernel, microseconds, stream)])

    def launch(self, name: str, work: Sequence[tuple]) -> None:
        """work: tuples (kind, name, microseconds, stream[, bytes])."""
        if self.step < 0:
            self.captured += [(self.open[-1], *one) for one in work]
        else:
            self.run(name, [(self.open[-1], *one) for one in work])

    def replay(self) -> None:
        self.run("cudaGraphLaunch", self.captured)

    def run(self, name: str, work: Sequence[tuple]) -> None:
        if self.on_gpu:
            self.correlation += 1
            self.add("call", "cudaGetDevice", -1, self.open[-1], self.tick(0.1), self.tick(0.1))
        self.correlation += 1
        if self.on_gpu:
            begin = self.tick(0.2)
            self.add("launch", name, -1, self.open[-1], begin, self.tick(2.5))
        for span, kind, kernel, microseconds, stream, *size in work:
            begin = round(max(self.free.get(stream, 0.0), self.host) + 1.5 * US, 9)
            end = round(begin + microseconds * US * self.random.uniform(0.9, 1.1), 9)
            self.free[stream] = end
            if stream == 0:
                self.host = end
            self.add(kind, kernel, stream, span, begin, end, *size)

    def add(
        self, kind: str, name: str, stream: int, span: int, begin: float, end: float, size: int = 0
    ) -> None:
        self.activities.append(
            {
                "rank": self.rank, "step": self.step, "kind": kind, "stream": stream, "name": name,
                "span": span, "begin": begin, "end": end,
                "correlation": self.correlation if self.on_gpu else 0, "bytes": size,
                "blocks": 132 if kind == "kernel" else 0,
            }
        )  # fmt: skip

    def wait(self, stream: int, other: int) -> None:
        """The next work of `stream` begins after the work that `other` has been given so far."""
        self.free[stream] = max(self.free.get(stream, 0.0), self.free.get(other, 0.0))


def block_forward(rank: Recorder, layer: int) -> None:
    with rank.scope(f"block {layer}"):
        with rank.scope("attention"):
            rank.operation("add_rms_norm", 6)
            rank.operation("matmul", 40)
            rank.operation("rope", 5)
            with rank.scope("scaled dot product attention"):
                with rank.scope("computing attention scores"):
                    rank.operation("matmul", 18)
                with rank.scope("computing softmax"):
                    for name in ("scale", "mask", "softmax"):
                        rank.operation(name, 9)
                with rank.scope("final matmul"):
                    rank.operation("matmul", 17)
            rank.operation("matmul", 14)
        with rank.scope("ffn"):
            rank.operation("add_rms_norm", 6)
            rank.operation("matmul", 60)
            rank.operation("swiglu", 8)
            rank.operation("matmul", 30)


def block_backward(rank: Recorder, layer: int) -> None:
    with rank.scope(f"block {layer}"):
        with rank.scope("ffn"):
            for microseconds in (60, 60, 12, 120):
                rank.operation("matmul", microseconds)
        with rank.scope("attention"):
            for microseconds in (28, 70, 80):
                rank.operation("matmul", microseconds)


def exchange(rank: Recorder, elements: int, microseconds: float) -> None:
    rank.wait(rank.communication, rank.compute)
    rank.operation("all_reduce", microseconds, rank.communication, elements)


def train_step(rank: Recorder, layers: int, sync: str) -> None:
    """A step. naive: all exchanges after backward; overlap: two per block during backward;
    bucketed: one per block during backward."""
    with rank.scope("forward"):
        if rank.on_gpu:
            rank.launch("cudaMemcpyAsync", [("copy", "copy", 3, rank.compute, 4096)])
            rank.launch("cudaMemsetAsync", [("memset", "memset", 2, rank.compute, 512)])
        for layer in range(layers):
            block_forward(rank, layer)
    with rank.scope("backward"):
        for layer in reversed(range(layers)):
            block_backward(rank, layer)
            if sync == "overlap":
                exchange(rank, 50_000, 110)
                exchange(rank, 50_001, 110)
            if sync == "bucketed":
                exchange(rank, 100_001, 180)
    with rank.scope("gradient exchange"):
        if sync == "naive":
            for _ in range(2 * layers):
                exchange(rank, 50_000, 110)
    rank.wait(rank.compute, rank.communication)
    with rank.scope("optimizer"):
        rank.operation("adamw", 90)


def profile(
    ranks: int = 2,
    steps: int = 2,
    layers: int = 2,
    sync: str = "bucketed",
    source: str = "cupti",
    captured: bool = False,
) -> list[Recorder]:
    """The ranks of a case. Each rank starts 3.25 us later than the one before."""
    recorders = [Recorder(rank, 3.25 * US * rank, source) for rank in range(ranks)]
    for recorder in recorders:
        if captured:
            train_step(recorder, layers, sync)
        for step in range(steps):
            with recorder.profiled_step(step):
                if captured:
                    recorder.replay()
                else:
                    train_step(recorder, layers, sync)
    return recorders


def write_profile(case: h5py.Group, recorders: Sequence[Recorder]) -> None:
    """Adds the timeline to a case of a result file."""
    case.attrs["profile"] = len(recorders[0].steps)
    group = case.create_group("trace")
    activities = [row for recorder in recorders for row in recorder.activities]
    spans = [row for recorder in recorders for row in recorder.spans]
    names = list(dict.fromkeys(row["name"] for row in activities))
    scopes = list(dict.fromkeys(row["path"] for row in spans))
    numbered = [
        row | {"name": names.index(row["name"]), "kind": ACTIVITIES.index(row["kind"])}
        for row in activities
    ]
    write_rows(group, numbered)
    write_rows(group.create_group("kinds"), [{"kind": kind} for kind in ACTIVITIES])
    located = [{"scope": scopes.index(row["path"])} | row for row in spans]
    for row in located:
        del row["path"]
    write_rows(group.create_group("spans"), located)
    short = [{"name": name, "short_name": re.split("[<(]", name)[0]} for name in names]
    write_rows(group.create_group("names"), short)
    write_rows(group.create_group("scopes"), [{"path": path} for path in scopes])
    write_rows(group.create_group("steps"), [r for one in recorders for r in one.steps])
    write_rows(
        group.create_group("ranks"),
        [
            {
                "rank": one.rank, "clock_offset": -1e-3 * one.rank, "clock_error": 2e-7,
                "lost": 0, "source": one.source,
            }
            for one in recorders
        ],
    )  # fmt: skip


def write_rows(group: h5py.Group, rows: Sequence[dict[str, Any]]) -> None:
    for name in rows[0]:
        write_column(group, name, [row[name] for row in rows])
