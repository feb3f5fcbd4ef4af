"""Command lines of paceline, with the knowledge whether each must be accepted."""

from dataclasses import dataclass, field

from random_use.environments import Environment
from random_use.files import Input
from random_use.values import BYTES_OF, REDUCTIONS

EXPERIMENTS = (
    "model", "ddp", "zero", "attention", "collectives", "precision", "plan", "info",
)  # fmt: skip
TRAINING = ("model", "ddp", "zero")
WITHOUT_FILE = ("plan", "info")


@dataclass
class Use:
    """A command line, its input files, and whether it must be accepted."""

    experiment: str
    ranks: int  # 0: without mpirun
    options: dict[str, str | None] = field(default_factory=dict)  # None: a bare flag
    valid: bool = True  # False: it may be refused
    files: dict[str, Input] = field(default_factory=dict)  # written before the launch, by path
    environment: Environment = field(default_factory=Environment)

    @property
    def arguments(self) -> list[str]:
        given = [[name] if value is None else [name, value] for name, value in self.options.items()]
        return [self.experiment, *(word for words in given for word in words)]

    @property
    def world(self) -> int:
        return max(self.ranks, 1)

    @property
    def runs(self) -> bool:
        """Whether it measures and so writes a result file."""
        printed = {"--dry-run", "--print-config"} & self.options.keys()
        return self.experiment not in WITHOUT_FILE and not printed

    @property
    def may_diverge(self) -> bool:
        """Whether AdamW may give 0 / 0, unbounded updates, or weights that overflow float16."""
        fast = self.options.get("--lr") == "0.1" and "fp16" in self.values("--precision")
        return fast or "0" in (self.options.get("--eps"), self.options.get("--beta2"))

    def values(self, name: str) -> list[str]:
        return (self.options.get(name) or "").split(",")


def count_of(text: str) -> int:
    """The number of values in a list of values and ranges."""
    count = 0
    for part in text.split(","):
        first, dots, rest = part.partition("..")
        if not dots:
            count += 1
            continue
        last, _, factor = rest.partition("*")
        value = int(first)
        while value <= int(last):
            count += 1
            value = value * int(factor) if factor else value + 1
    return count


def can_fit(use: Use) -> bool:
    """Whether every sweep over --bytes has two sizes above 0 after they are rounded down."""
    units = [
        int(n) * BYTES_OF[dtype] for n in use.values("--ranks") for dtype in use.values("--dtype")
    ]
    return all(
        len({int(size) // unit for size in use.values("--bytes")} - {0}) > 1 for unit in units
    )


def drop_unused(use: Use) -> None:
    """Drops options that apply to no case, since the program refuses them."""
    o = use.options

    def has(name: str, *values: str) -> bool:
        return name not in o or not {*values}.isdisjoint(use.values(name))

    flash_fp32 = has("--attention", "flash") and has("--precision", "fp32")
    in_bf16 = has("--precision", "bf16", "fp16") or has("--fp32-attention", "bf16x3")
    unused = {
        "--fp32-attention": not flash_fp32,
        "--flash-kernels": not has("--attention", "flash") or not in_bf16,
        "--recompute": use.values("--mode") == ["inference"],
        "--optimizer": not has("--mode", "train-step"),
        "--prefetch": not has("--shard", "fsdp"),
        "--reshard": not has("--shard", "fsdp"),
        "--bucket-mb": use.values("--shard") == ["fsdp"] or not has("--sync", "bucketed"),
        "--redop": not has("--op", *REDUCTIONS),
        "--in-place": not has("--op", *REDUCTIONS, "all_gather"),
        "--fit": "--fit" in o and not can_fit(use),
    }
    exchange = ("--comm-dtype", "--registration", "--verify")
    unused |= dict.fromkeys(exchange, use.values("--sync") == ["none"])
    for name, drop in unused.items():
        if drop:
            o.pop(name, None)
