"""ReFrame checks of the main experiments: every case ok, rates beside their references.

-S tiny=yes makes each take a second, on any machine. The program is PACELINE, the build
folder's, or an installation's.
"""

import json
import os
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_after, sanity_function, variable

HERE = Path(__file__).resolve().parent
BUILT = HERE.parents[1] / "build/paceline"
INSTALLED = HERE.parents[3] / "bin/paceline"


def program() -> str:
    return os.environ.get("PACELINE") or str(BUILT if BUILT.exists() else INSTALLED)


class Experiment(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]  # noqa: RUF012
    valid_prog_environs = ["*"]  # noqa: RUF012
    time_limit = "10m"
    tiny = variable(bool, value=False)
    options = variable(str)
    tiny_options = variable(str)

    @run_after("init")
    def choose(self) -> None:
        self.executable = program()
        options = self.tiny_options if self.tiny else self.options
        self.executable_opts = [*options.split(), "--json", "--output", "out.h5", "--force"]
        if os.geteuid() == 0:  # Open MPI refuses to start ranks for root unless told
            allow = "OMPI_ALLOW_RUN_AS_ROOT"
            self.env_vars = {allow: "1", f"{allow}_CONFIRM": "1"}

    @run_after("setup")
    def tell_the_launcher(self) -> None:
        launcher = self.current_partition.launcher_type.registered_name
        options = {"mpirun": ["--oversubscribe"], "srun": ["--mpi=pmix"]}
        self.job.launcher.options = options.get(launcher, [])

    def rows(self) -> list[dict]:
        text = (Path(self.stagedir) / self.stdout.evaluate()).read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    @sanity_function
    def every_case_is_ok(self) -> bool:
        rows = self.rows()
        sn.evaluate(sn.assert_true(rows, "no case was measured"))
        return all(sn.evaluate(sn.assert_eq(row["status"], "ok", row["case"])) for row in rows)


@rfm.simple_test
class Steps(Experiment):
    """Training steps of `small`, fp32, context 512."""

    options = "model --size small --context 512 --timing step"
    tiny_options = "model --size tiny --context 16 --steps 3"
    reference = {"h200:gpu": {"rate": (46510, -0.05, None, "tokens/s")}}  # noqa: RUF012

    @performance_function("tokens/s")
    def rate(self) -> float:
        return self.rows()[0]["tokens_per_s"]


@rfm.simple_test
class FlashAttention(Experiment):
    """Causal bf16 flash attention, 16 heads of 128, length 16384."""

    options = (
        "attention --attention flash --precision bf16 --head-dim 128 --heads 16 --batch-size 1 "
        "--context 16384 --causal"
    )
    tiny_options = "attention --attention flash --head-dim 16 --context 64 --batch-size 1 --steps 3"
    reference = {"h200:gpu": {"rate": (572, -0.05, None, "TFLOP/s")}}  # noqa: RUF012

    @performance_function("TFLOP/s")
    def rate(self) -> float:
        row = self.rows()[0]
        work = row["forward_tflops_per_s"] * row["forward_median_s"]
        return 3.5 * work / row["both_median_s"]


@rfm.simple_test
class AllReduce(Experiment):
    """all_reduce of 1 GB over two ranks, every result checked."""

    num_tasks = 2
    num_tasks_per_node = 2
    options = "collectives --op all_reduce --bytes 1GB"
    tiny_options = "collectives --device cpu --op all_reduce --bytes 64KB --steps 3"
    reference = {"h200:gpu": {"bus_bandwidth": (327.4e9, -0.05, None, "bytes/s")}}  # noqa: RUF012

    @performance_function("bytes/s")
    def bus_bandwidth(self) -> float:
        return max(row["busbw_bytes_per_s"] for row in self.rows())


@rfm.simple_test
class DataParallel(Experiment):
    """Data-parallel steps of `xl`, bf16, context 512, 4 sequences per rank, on two ranks."""

    num_tasks = 2
    num_tasks_per_node = 2
    options = "ddp --size xl --precision bf16 --context 512 --batch-size 4 --sync bucketed"
    tiny_options = (
        "ddp --size tiny --context 16 --batch-size 2 --sync bucketed --verify 1 --steps 3"
    )
    reference = {"h200:gpu": {"rate": (48520, -0.05, None, "tokens/s")}}  # noqa: RUF012

    @performance_function("tokens/s")
    def rate(self) -> float:
        return self.rows()[0]["tokens_per_s"]
