"""Random command lines of paceline: shapes so small that any of them runs in seconds."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

EXPERIMENTS = ("model", "attention", "collectives", "ddp", "zero", "info")
BYTES_OF = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int32": 4}
REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
OPS = (*REDUCTIONS, "all_gather", "broadcast", "all_to_all", "send_recv")
FLASH_HEAD_DIMS = (16, 32, 64, 80, 128)  # of a GPU
# What is wrong with a command line; some of it only for some experiments.
SPOILS = (
    ("--context", "0"), ("--context", "8,"), ("--vocab", "1"), ("--heads", "5"), ("--heads", "-1"),
    ("--d-model", "9"), ("--d-ff", "x"), ("--steps", "0"), ("--warmup", "-1"), ("--preset", "none"),
    ("--precision", "fp31"), ("--mode", "inference"), ("--recompute", "0"), ("--max-steps", "1"),
    ("--until-ci", "0"), ("--memory-limit", "1 banana"), ("--resume", None), ("--verify", "0"),
    ("--op", "gather"), ("--redop", "median"), ("--bytes", "3"), ("--ranks", "99"), ("--lr", "nan"),
    ("--global-batch", "7"), ("--bucket-mb", "-1"), ("--output", "out.txt"), ("--unknown", "1"),
    ("--size", "huge"), ("--comm-dtype", "fp16"), ("--profile", None), ("--launch", "graph"),
    ("--tokens", "none.h5"), ("--load-weights", "none.h5"), ("--predict", "none.h5"),
    ("--config", "none.toml"), ("--registration", "symmetric"), ("--batch-size", "1e3"),
    ("--flash-kernels", "sm80"), ("--fp32-attention", "exact"), ("--in-place", "yes"),
    ("--max-steps", "50"), ("--recompute", "block"), ("--sync", "none"), ("--shard", "zero3"),
    ("--prefetch", "65"), ("--reshard", "1"),
)  # fmt: skip

Values = Sequence[object]


@dataclass
class Use:
    """A command line: what it is given, and whether it must be accepted."""

    experiment: str
    ranks: int
    options: dict[str, str | None] = field(default_factory=dict)  # None: a bare flag
    valid: bool = True

    @property
    def arguments(self) -> list[str]:
        given = [[name] if value is None else [name, value] for name, value in self.options.items()]
        return [self.experiment, *(word for words in given for word in words)]

    def values(self, name: str) -> list[str]:
        return (self.options.get(name) or "").split(",")


class Generator:
    """Command lines that follow from the seed."""

    def __init__(self, seed: str, device: str, max_ranks: int) -> None:
        self.random = random.Random(seed)
        self.device = device
        self.max_ranks = max_ranks

    def use(self) -> Use:
        experiment = self.random.choice(EXPERIMENTS[: None if self._chance(0.3) else -1])
        use = Use(experiment, self.random.randint(1, self.max_ranks))
        o = use.options
        if experiment != "collectives":
            o["--device"] = self.device
        if self.device == "cpu":
            o["--threads"] = "1"
        getattr(self, f"_{experiment}")(use)
        if experiment == "info":
            return use
        self._run_options(use)
        if self._chance(0.15):
            use.valid = False
            name, value = self.random.choice(SPOILS)
            o[name] = value
        return use

    # ---- parts ------------------------------------------------------------------------------

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _list(self, values: Values, most: int = 2, single: bool = False) -> str:
        """One value, or several of an axis."""
        count = 1 if single or self._chance(0.5) else self.random.randint(1, most)
        return ",".join(map(str, self.random.sample(list(values), min(count, len(values)))))

    def _maybe(self, use: Use, share: float, name: str, values: Values | None = None) -> None:
        if self._chance(share):
            use.options[name] = None if values is None else str(self.random.choice(values))

    def _run_options(self, use: Use) -> None:
        o = use.options
        o["--output"] = "out.h5"
        o["--warmup"] = str(self.random.randint(0, 2))
        o["--steps"] = str(self.random.choice((1, 2, 5, 6, 7, 11)))
        if self._chance(0.2):
            o["--until-ci"] = str(self.random.choice((0.001, 5, 50, 100)))
            self._maybe(use, 0.8, "--max-steps", (11, 12, 20))
        self._maybe(use, 0.15, "--memory-limit", ("1", "10KB", "200KB", "1.5MB", "15MB", "1GiB"))
        for name in ("--json", "--quiet"):
            self._maybe(use, 0.3, name)
        if use.experiment != "collectives":
            self._maybe(use, 0.3, "--seed", (0, 1, 12345, 2**62))
            self._maybe(use, 0.2, "--deterministic")

    def _shape(self, use: Use, single: bool) -> None:
        o, r = use.options, self.random
        head_dim = r.choice((2, 4, 6, 8, 10, 16, 32))
        if self._chance(0.3):
            o["--size"], head_dim = "tiny", 16
        else:
            heads = r.randint(1, 4)
            o |= {"--d-model": str(head_dim * heads), "--d-ff": str(r.randint(1, 41))}
            o |= {"--layers": str(r.randint(1, 4)), "--heads": str(heads)}
        o["--vocab"] = str(r.choice((2, 3, 5, 17, 64, 127, 300)))
        o["--context"] = self._list((1, 2, 3, 5, 8, 16, 17, 33), single=single)
        if self._chance(0.3):
            o["--global-batch"] = str(use.ranks * r.randint(1, 3))
        else:
            o["--batch-size"] = self._list((1, 2, 3, 5), single=single)
        precisions = ("fp32", "bf16", "fp16") + (("tf32",) if self.device == "cuda" else ())
        o["--precision"] = self._list(precisions, 3, single)
        self._attention_options(use, head_dim, single)
        self._maybe(use, 0.2, "--timing", ("phases", "step"))
        self._maybe(use, 0.2, "--lr", (0, 1e-3, 0.1))
        self._maybe(use, 0.1, "--beta1", (0, 0.5))
        self._maybe(use, 0.1, "--weight-decay", (0, 1))
        self._maybe(use, 0.15, "--memory-timeline")
        if self._chance(0.4):
            o["--recompute"] = self._list(("none", "swiglu", "block", 2, 3), single=single)
        if single:
            o["--dump"] = "dump.h5"
        if self._chance(0.08):
            self._preset(use, {"model": ("sizes", "warmup", "precision", "memory")})

    def _attention_options(self, use: Use, head_dim: int, single: bool) -> None:
        o = use.options
        o["--attention"] = self._list(("naive", "fused", "flash"), 3, single)
        if "flash" not in use.values("--attention"):
            return
        precisions = use.values("--precision")
        if "fp32" in precisions and self._chance(0.5):
            o["--fp32-attention"] = self._list(("exact", "bf16x3", "tf32"), 3, single)
        if self.device == "cuda":
            splits = "fp32" in precisions and "bf16x3" in o.get("--fp32-attention", "bf16x3")
            if (splits or {"bf16", "fp16"} & set(precisions)) and self._chance(0.3):
                o["--flash-kernels"] = self._list(("newest", "sm80"), single=single)
            use.valid = use.valid and head_dim in FLASH_HEAD_DIMS

    def _preset(self, use: Use, names: dict[str, Values]) -> None:
        """A named sweep with what makes it small beside it."""
        o = use.options
        names |= {"ddp": ("course", "context", "long"), "zero": ("course",)}
        o["--preset"] = str(self.random.choice(names[use.experiment]))
        for name in ("--d-model", "--d-ff", "--layers", "--heads", "--dump"):
            o.pop(name, None)
        o["--size"] = "tiny"
        if use.experiment == "ddp":
            o["--sync"], o["--bucket-mb"] = "naive,bucketed", "0.01,25"
        use.valid = False  # some of its parts may stand in the way of others

    # ---- experiments ------------------------------------------------------------------------

    def _model(self, use: Use) -> None:
        single = self._chance(0.15)
        self._shape(use, single)
        modes = ("inference", "forward", "forward-backward", "train-step")
        use.options["--mode"] = self._list(modes, 3, single)
        if use.values("--mode") == ["inference"]:  # which keeps nothing
            use.options.pop("--recompute", None)

    def _exchange(self, use: Use, single: bool, modes: Values) -> None:
        o = use.options
        if self._chance(0.35):
            o["--verify"] = self.random.choice((None, "1", "2", "7"))
            o["--precision"] = "fp32"
        else:
            o["--mode"] = self._list(modes, single=single)
            if self._chance(0.4):
                half = "fp16" in use.values("--precision")
                o["--comm-dtype"] = "fp32" if half else self._list(("fp32", "bf16"), single=single)
        if self.device == "cuda":
            self._maybe(use, 0.3, "--registration", ("none", "symmetric"))

    def _ddp(self, use: Use) -> None:
        o, single = use.options, self._chance(0.15)
        self._shape(use, single)
        o["--sync"] = self._list(("none", "naive", "flat", "overlap", "bucketed"), 5, single)
        if "bucketed" in use.values("--sync"):
            o["--bucket-mb"] = self._list((0, 0.0001, 0.003, 0.02, 25), 3, single)
        if o["--sync"] != "none":
            self._exchange(use, single, ("train-step", "forward-backward"))

    def _zero(self, use: Use) -> None:
        o, single = use.options, self._chance(0.15)
        self._shape(use, single)
        o["--shard"] = self._list(("none", "broadcast", "zero1", "zero2", "fsdp"), 3, single)
        shards = set(use.values("--shard"))
        if shards - {"fsdp"}:
            o["--bucket-mb"] = self._list((0, 0.0001, 0.003, 0.02, 25), 3, single)
        if "fsdp" in shards:
            o["--prefetch"] = self._list((0, 1, 2, 5, 64), 3, single)
            self._maybe(use, 0.6, "--reshard", ("yes", "no") if single else ("yes", "no", "yes,no"))
        self._exchange(use, single, ("train-step",))

    def _attention(self, use: Use) -> None:
        o = use.options
        o["--context"] = self._list((1, 2, 3, 17, 64, 65, 130))
        o["--head-dim"] = self._list((1, 2, 3, 7, 16, 33, 64), 3)
        o["--batch-size"] = self._list((1, 2, 3))
        o["--heads"] = str(self.random.randint(1, 4))
        o["--precision"] = self._list(("fp32", "bf16", "fp16"), 3)
        dims = map(int, use.values("--head-dim"))
        self._attention_options(use, next((d for d in dims if d not in FLASH_HEAD_DIMS), 16), False)
        self._maybe(use, 0.6, "--causal", ("yes", "no", "yes,no"))
        self._maybe(use, 0.5, "--cache", ("cold", "warm"))
        if self.device == "cuda":
            self._maybe(use, 0.4, "--launch", ("direct", "graph"))
        if self._chance(0.1):
            o["--preset"] = str(self.random.choice(("pytorch-attention", "flash-benchmark")))
            o["--cache"] = "warm"  # the presets' many repetitions would each flush it
            use.valid = False

    def _collectives(self, use: Use) -> None:
        o = use.options
        backends = ("mpi",) if self.device == "cpu" else ("mpi", "nccl")
        o["--backend"] = self._list(backends)
        o["--op"] = self._list(OPS, 3)
        o["--dtype"] = self._list(list(BYTES_OF), 2)
        whole = max(BYTES_OF[name] for name in use.values("--dtype"))
        o["--bytes"] = self._list([whole * n for n in (1, 2, 3, 7, 60, 1000, 30001)], 3)
        o["--ranks"] = self._list(range(1, use.ranks + 1), 3)
        if any(op in REDUCTIONS for op in use.values("--op")):
            o["--redop"] = self._list(("sum", "prod", "min", "max", "avg"), 3)
        both = [op for op in use.values("--op") if op in (*REDUCTIONS, "all_gather")]
        if both and self._chance(0.5):
            o["--in-place"] = self._list(("no", "yes"))
        o["--cadence"] = self._list(("barrier", "back-to-back"))
        if self._chance(0.3):
            o["--cache"] = self._list(("cold", "warm"))
        self._maybe(use, 0.3, "--fit")
        if self._chance(0.1):
            o["--preset"] = "single-node"
            use.valid = False

    def _info(self, use: Use) -> None:
        self._maybe(use, 0.3, "--ceilings")
        self._maybe(use, 0.3, "--timeout", (1, 60))
