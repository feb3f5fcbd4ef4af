"""Random command lines of paceline, with shapes so small that each runs in seconds."""

import random

from random_use.files import TOKEN_FORMATS, Input, NoHdf5, Tokens, Weights
from random_use.lines import EXPERIMENTS, Use, count_of, drop_unused
from random_use.values import (
    AXES,
    BYTES_OF,
    FLASH_HEAD_DIMS,
    MAX_CASES,
    OPS,
    PLANS,
    REDUCTIONS,
    SHARES,
    SPOILS,
    Values,
)


class Generator:
    """Generates the command line of a seed."""

    def __init__(self, seed: str, device: str, max_ranks: int) -> None:
        self.random = random.Random(seed)
        self.device = device
        self.max_ranks = max_ranks

    def use(self) -> Use:
        (experiment,) = self.random.choices(EXPERIMENTS, SHARES)
        use = Use(experiment, self._ranks(experiment))
        if experiment == "plan":
            self._plan(use)
        else:
            self._measuring(use)
        if self._chance(0.15):
            use.valid = False
            name, value = self.random.choice(SPOILS)
            use.options[name] = value
        return use

    def _ranks(self, experiment: str) -> int:
        if experiment == "plan" or self._chance(0.45):
            return 0
        return min(self.random.choice((1, 2, 2, 2, 2, 3, 3, 4, 5, 6)), self.max_ranks)

    def _measuring(self, use: Use) -> None:
        o = use.options
        if use.experiment != "collectives":
            o["--device"] = self.device
        if self.device == "cpu":
            o["--threads"] = "1"
        getattr(self, f"_{use.experiment}")(use)
        self._maybe(use, 0.1, "--timeout", (60, 100.5))
        if use.experiment == "info":
            return
        self._run_options(use)
        if use.experiment != "precision":
            self._sampling(use)
        self._limit_cases(use)

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _list(self, values: Values, most: int = 2, single: bool = False) -> str:
        """One value, or several of an axis."""
        count = 1 if single or self._chance(0.5) else self.random.randint(1, most)
        return ",".join(map(str, self.random.sample(list(values), min(count, len(values)))))

    def _numbers(self, values: Values, most: int = 2, single: bool = False) -> str:
        """Like _list, but sometimes a range."""
        if not single and self._chance(0.15):
            return self.random.choice(("1..3", "1..5", "2..16*2", "3..3", "1,2..4", "1..64*8"))
        return self._list(values, most, single)

    def _maybe(self, use: Use, share: float, name: str, values: Values | None = None) -> None:
        if self._chance(share):
            use.options[name] = None if values is None else str(self.random.choice(values))

    def _run_options(self, use: Use) -> None:
        o = use.options
        o["--output"] = "out.h5"
        self._maybe(use, 0.15, "--memory-limit", ("1", "10KB", "200KB", "1.5MB", "15MB", "1GiB"))
        for name in ("--json", "--quiet"):
            self._maybe(use, 0.3, name)
        self._maybe(use, 0.04, self.random.choice(("--dry-run", "--print-config")))
        if use.experiment != "collectives":
            self._maybe(use, 0.3, "--seed", (0, 1, 12345, 2**62))
            self._maybe(use, 0.2, "--deterministic")

    def _sampling(self, use: Use) -> None:
        o, r = use.options, self.random
        o["--warmup"] = str(r.randint(0, 2))
        o["--steps"] = str(r.choice((1, 2, 5, 6, 7, 11)))
        if self._chance(0.2):
            o["--until-ci"] = str(r.choice((0.001, 5, 50, 100)))
        self._maybe(use, 0.1, "--min-time", (0, 0.001, 0.01))
        if "--until-ci" in o or o.get("--min-time", "0") != "0":
            self._maybe(use, 0.8, "--max-steps", (11, 12, 20))
        self._maybe(use, 0.1, "--profile", (1, 2, 3))
        if self._chance(0.15):
            o["--max-warmup"] = str(r.choice((0, 2, 3, 7)))

    def _limit_cases(self, use: Use) -> None:
        """Shortens axes until their product is small; each keeps at least its first value."""
        o = use.options
        while True:
            counts = {name: count_of(o[name] or "") for name in AXES & o.keys()}
            product = 1
            for count in counts.values():
                product *= count
            longest = max(sorted(counts), key=counts.get, default="")
            if product <= MAX_CASES:
                break
            first, *rest = (o[longest] or "").split(",")
            o[longest] = (
                ",".join((first, *rest[: len(rest) // 2])) if rest else first.split("..")[0]
            )

        drop_unused(use)

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
        o["--context"] = self._numbers((1, 2, 3, 5, 8, 16, 17, 33), single=single)
        if self._chance(0.3):
            o["--global-batch"] = str(use.world * r.randint(1, 3))
        else:
            o["--batch-size"] = self._numbers((1, 2, 3, 5), single=single)
        precisions = ("fp32", "bf16", "fp16") + (("tf32",) if self.device == "cuda" else ())
        o["--precision"] = self._list(precisions, 3, single)
        self._attention_options(use, head_dim, single)
        self._maybe(use, 0.2, "--timing", ("phases", "step"))
        self._maybe(use, 0.15, "--memory-timeline")
        if self.device == "cuda":
            o["--exec"] = self._list(("eager", "compiled"), single=single)
        else:
            self._maybe(use, 0.1, "--exec", ("eager",))
        if self._chance(0.4):
            o["--recompute"] = self._list(("none", "swiglu", "block", 2, 3), single=single)
        if single:
            o["--dump"] = "dump.h5"
        self._adamw(use)
        self._inputs(use)
        if self._chance(0.08):
            self._preset(use)

    def _adamw(self, use: Use) -> None:
        self._maybe(use, 0.2, "--lr", (0, 1e-3, 0.1))
        self._maybe(use, 0.1, "--beta1", (0, 0.5))
        self._maybe(use, 0.1, "--beta2", (0, 0.9))
        self._maybe(use, 0.1, "--eps", (0, 1e-4, 1))
        self._maybe(use, 0.1, "--weight-decay", (0, 1))

    def _inputs(self, use: Use) -> None:
        """Files of tokens and weights; some do not fit the model."""
        if self._chance(0.12):
            self._tokens(use)
        if self._chance(0.12):
            self._weights(use)

    def _tokens(self, use: Use) -> None:
        r = self.random
        rows, columns = r.choice((3, 40, 200)), r.choice((1, 9, 80))
        vocab = r.choice((2, int(use.options["--vocab"] or 2), 500))
        made = Tokens(rows, columns, vocab, r.choice(TOKEN_FORMATS), targets=self._chance(0.7))
        self._input(use, "--tokens", "tokens.bin", made)
        self._maybe(use, 0.3, "--token-dtype", ("uint16", "uint32"))
        use.valid = False

    def _weights(self, use: Use) -> None:
        o = use.options
        sizes = {"--d-model": "64", "--d-ff": "192", "--layers": "2", **o}
        d_model, d_ff, layers = (int(sizes[n] or 0) for n in ("--d-model", "--d-ff", "--layers"))
        vocab = int(o["--vocab"] or 0)
        fits = self._chance(0.7)
        if not fits:
            d_model, layers, vocab = self.random.choice(
                ((d_model + 2, layers, vocab), (d_model, layers + 1, vocab), (d_model, layers, 1))
            )
        made = Weights(d_model, d_ff, layers, vocab, grouped=self._chance(0.5))
        use.valid = use.valid and fits
        self._input(use, "--load-weights", "weights.h5", made)

    def _input(self, use: Use, option: str, name: str, made: Input) -> None:
        if self._chance(0.1):
            use.valid, made = False, NoHdf5()
        use.options[option], use.files[name] = name, made

    def _attention_options(self, use: Use, head_dim: int, single: bool) -> None:
        o = use.options
        o["--attention"] = self._list(("naive", "fused", "flash"), 3, single)
        if self.device == "cpu" and len(set(use.values("--precision"))) == 1:
            self._maybe(use, 0.1, "--peak-tflops", (0.001, 989.4))
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

    def _preset(self, use: Use) -> None:
        """A preset, with options that make it small."""
        o = use.options
        names = {
            "model": ("sizes", "warmup", "precision", "memory", "checkpointing", "profile"),
            "ddp": ("course", "context", "long"),
            "zero": ("course", "fsdp"),
        }
        o["--preset"] = self.random.choice(names[use.experiment])
        for name in ("--d-model", "--d-ff", "--layers", "--heads", "--dump"):
            o.pop(name, None)
        o["--size"] = "tiny"
        if use.experiment == "ddp":
            o["--sync"], o["--bucket-mb"] = "naive,bucketed", "0.01,25"
        use.valid = False  # options of the preset may conflict with the other options

    def _optimizer(self, use: Use, single: bool) -> None:
        trains = "train-step" in use.values("--mode") or "--mode" not in use.options
        if trains and "fp16" not in use.values("--precision") and self._chance(0.25):
            use.options["--optimizer"] = self._list(("serial", "in-backward"), single=single)

    def _model(self, use: Use) -> None:
        o, single = use.options, self._chance(0.15)
        self._shape(use, single)
        modes = ("inference", "forward", "forward-backward", "train-step")
        o["--mode"] = self._list(modes, 3, single)
        if use.values("--mode") == ["inference"]:  # saves no activations
            o.pop("--recompute", None)
        self._optimizer(use, single)

    def _exchange(self, use: Use, single: bool, modes: Values) -> None:
        o = use.options
        if self._chance(0.35):
            o["--verify"] = self.random.choice((None, "1", "2", "7"))
            o.pop(
                "--beta2", None
            )  # beta2 = 0 gives unbounded updates, which --verify cannot compare
            o["--precision"] = "fp32"
        else:
            o["--mode"] = self._list(modes, single=single)
            if self._chance(0.4):
                half = "fp16" in use.values("--precision")
                o["--comm-dtype"] = "fp32" if half else self._list(("fp32", "bf16"), single=single)
        if self.device == "cuda":
            self._maybe(use, 0.3, "--registration", ("none", "symmetric"))
        else:
            self._maybe(use, 0.1, "--registration", ("none",))

    def _ddp(self, use: Use) -> None:
        o, single = use.options, self._chance(0.15)
        self._shape(use, single)
        o["--sync"] = self._list(("none", "naive", "flat", "overlap", "bucketed"), 5, single)
        if "bucketed" in use.values("--sync"):
            o["--bucket-mb"] = self._list((0, 0.0001, 0.003, 0.02, 25), 3, single)
        if o["--sync"] != "none":
            self._exchange(use, single, ("train-step", "forward-backward"))
        self._optimizer(use, single)

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
        self._optimizer(use, single)

    def _attention(self, use: Use) -> None:
        o = use.options
        o["--context"] = self._numbers((1, 2, 3, 17, 64, 65, 130))
        o["--head-dim"] = self._numbers((1, 2, 3, 7, 16, 33, 64), 3)
        o["--batch-size"] = self._numbers((1, 2, 3))
        o["--heads"] = str(self.random.randint(1, 4))
        o["--precision"] = self._list(("fp32", "bf16", "fp16"), 3)
        dims = use.values("--head-dim")
        flash = all(d.isdigit() and int(d) in FLASH_HEAD_DIMS for d in dims)
        self._attention_options(use, FLASH_HEAD_DIMS[0] if flash else 0, False)
        self._maybe(use, 0.6, "--causal", ("yes", "no", "yes,no"))
        o["--cache"] = "cold" if self._chance(0.2) else "warm"
        launches = ("direct", "graph") if self.device == "cuda" else ("direct",)
        self._maybe(use, 0.3, "--launch", launches)
        if self._chance(0.1):
            o["--preset"] = str(
                self.random.choice(("pytorch-attention", "flash-benchmark", "leaderboard"))
            )
            o["--cache"] = "warm"  # the presets have many repetitions; flushing in each takes long
            use.valid = False

    def _collectives(self, use: Use) -> None:
        o = use.options
        backends = ("mpi",) if self.device == "cpu" else ("mpi", "nccl")
        o["--backend"] = self._list(backends)
        o["--op"] = self._list(OPS, 3)
        o["--dtype"] = self._list(list(BYTES_OF), 2)
        whole = max(BYTES_OF[name] for name in use.values("--dtype"))
        sizes = [whole * n for n in (1, 2, 3, 7, 60, 1000, 30001)]
        o["--bytes"] = self._list([*sizes, 5, 4001], 3)
        o["--ranks"] = self._list(range(1, use.world + 1), 3)
        if any(op in REDUCTIONS for op in use.values("--op")):
            o["--redop"] = self._list(("sum", "prod", "min", "max", "avg"), 3)
        both = [op for op in use.values("--op") if op in (*REDUCTIONS, "all_gather")]
        if both and self._chance(0.5):
            o["--in-place"] = self._list(("no", "yes"))
        o["--cadence"] = self._list(("barrier", "back-to-back"))
        if self._chance(0.2):
            o["--cache"] = self._list(("cold", "warm"))
        self._maybe(use, 0.1, "--registration", ("none",))
        self._maybe(use, 0.3, "--fit")
        if self._chance(0.1):
            o["--preset"] = "single-node"
            use.valid = False

    def _precision(self, use: Use) -> None:
        o = use.options
        o["--study"] = self._list(("accumulation", "dtypes", "norms"), 2)
        for study in use.values("--study"):
            getattr(self, f"_{study}")(use)

    def _accumulation(self, use: Use) -> None:
        o = use.options
        o["--count"] = self._numbers((1, 2, 33, 1000))
        o["--addend"] = self._list((0, 0.01, -1, 1e30, 3e-8))
        arithmetics = ("fp32", "fp16", "fp16-into-fp32", "fp16-upcast", "bf16", "bf16-into-fp32")
        o["--arithmetic"] = self._list(arithmetics, 3)
        o["--summation"] = self._list(("sequential", "pairwise", "blocked", "compensated"))

    def _dtypes(self, use: Use) -> None:
        o = use.options
        o["--precision"] = self._list(("fp32", "bf16", "fp16"))
        o["--model"] = self._list(("toy", "transformer"))

    def _norms(self, use: Use) -> None:
        o = use.options
        o["--norm"] = self._list(("layer_norm", "rms_norm"))
        o["--norm-dtype"] = self._list(("fp16", "bf16"))
        o["--mean"] = self._list((0, 1, -100))
        o["--scale"] = self._list((1e-30, 0.5, 1e6, 1e30))
        o["--width"] = str(self.random.choice((1, 2, 17, 768)))

    def _info(self, use: Use) -> None:
        self._maybe(use, 0.1, "--ceilings")
        self._maybe(use, 0.4, "--json")

    def _plan(self, use: Use) -> None:
        o = use.options
        use.valid = False  # some layouts do not fit some models
        for name, values in PLANS.items():
            self._maybe(use, 0.25, name, values)
        if self._chance(0.4):
            o["--size"] = self.random.choice(("tiny", "small", "xl", "2.7b", "10b"))
        elif self._chance(0.6):
            heads = self.random.choice((1, 2, 3, 4, 8))
            o |= {"--d-model": str(heads * self.random.choice((2, 6, 64))), "--heads": str(heads)}
            o |= {"--d-ff": str(self.random.randint(1, 300) * 2), "--layers": "3"}
        if self._chance(0.8):
            self._reconcile(o)

    def _reconcile(self, o: dict[str, str | None]) -> None:
        """Drops options that conflict with other ones."""
        full = "--fsdp" in o or o.get("--shard") == "fsdp"
        two_matrix = o.get("--blocks") == "two-matrix"
        clashes = {
            "--shard": "--fsdp" in o,
            "--ranks": "--fsdp" in o or "--tp" in o,
            "--prefetch": not full,
            "--reshard": not full,
            "--bucket-mb": full,
            "--preset": full or "--size" in o or "--d-model" in o or two_matrix,
            "--run-tokens": o.get("--ask") != "run",
        }
        clashes |= dict.fromkeys(("--heads", "--vocab", "--attention", "--exec"), two_matrix)
        for name, clash in clashes.items():
            if clash:
                o.pop(name, None)
