"""A data-parallel training step in PyTorch, for comparison with paceline's `ddp` and `zero`.

    mpirun -np 2 python3 bench/peers/data_parallel_step.py --size small --variants ddp zero

Rank 0 prints one JSON line per variant, with paceline's column names. The model and the precision
are those of train_step.py; AdamW is fused on GPUs; every variant averages gradients over ranks.

naive          after backward, one all_reduce per parameter
flat           after backward, one all_reduce of a flattened copy of all gradients
overlap        a hook starts the all_reduce of each parameter as soon as its gradient is ready
ddp            DistributedDataParallel with its defaults (buckets of 25 MB)
ddp-view       gradient_as_bucket_view=True: no copies between gradients and buckets
ddp-compile    torch.compile of ddp-view, which splits the graph at bucket boundaries
zero           ddp-view with ZeroRedundancyOptimizer around AdamW, parameters_as_bucket_view=True
zero-compile   ddp-compile with the same optimizer
fsdp           FSDP2: fully_shard of every block and of the model; parameters are gathered in the
               low precision, gradients are reduce-scattered in fp32, as in paceline
fsdp-bf16      gradients are reduce-scattered in the low precision, too
fsdp-keep      reshard_after_forward=False
fsdp-compile   blocks are compiled before they are sharded

A sample is the host time of one step after a barrier, with the device synchronized before and after
it; its time is the maximum over ranks. communication_exposed_median_s is the time of naive and flat
from the end of backward to the averaged gradients, by events on the compute stream.
"""

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from step_cases import ATTENTIONS, PRECISIONS, SIZES
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from train_step import HALF, Transformer

REPLICATED = ("ddp", "ddp-view", "ddp-compile", "zero", "zero-compile")
SHARDED = ("fsdp", "fsdp-bf16", "fsdp-keep", "fsdp-compile")
VARIANTS = ("naive", "flat", "overlap", *REPLICATED, *SHARDED)


class Clock:
    """Time marks: CUDA events on the compute stream, or the host clock for a CPU device.

    Synchronize the device before reading the seconds between two marks."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"

    def mark(self) -> torch.cuda.Event | float:
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: torch.cuda.Event | float, end: torch.cuda.Event | float) -> float:
        return begin.elapsed_time(end) / 1e3 if self.cuda else end - begin

    def synchronize(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()


class Trainer:
    """One rank's replica with its optimizer and batch. `step` is the timed step."""

    def __init__(self, options: argparse.Namespace, variant: str, device: torch.device) -> None:
        self.variant = variant
        self.device = device
        self.low = HALF.get(options.precision)
        self.clock = Clock(device)
        self.marks: list[torch.cuda.Event | float] = []
        self.pending: list[dist.Work] = []
        torch.manual_seed(0)  # every rank has the same weights
        with device:
            model = Transformer(options.size, options.vocab, options.context, options.attention)
        torch.manual_seed(1 + dist.get_rank())
        rows = torch.randint(options.vocab, (options.batch_size, options.context + 1)).to(device)
        self.tokens, self.targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        cuda = device.type == "cuda"
        # NCCL averages, as in paceline; gloo only sums.
        self.average = dist.ReduceOp.AVG if cuda else dist.ReduceOp.SUM
        self.divisor = 1 if cuda else dist.get_world_size()
        self.loss = self.wrapped(model)
        # Backward finishes the gradients of the last parameters first.
        self.parameters = list(model.parameters())[::-1]
        self.optimizer = self.adamw(fused=cuda)
        if variant == "overlap":
            for parameter in self.parameters:
                parameter.register_post_accumulate_grad_hook(self.send)

    def adamw(self, fused: bool) -> torch.optim.Optimizer:
        if not self.variant.startswith("zero"):
            return torch.optim.AdamW(self.parameters, fused=fused)
        return ZeroRedundancyOptimizer(
            self.parameters, torch.optim.AdamW, parameters_as_bucket_view=True, fused=fused
        )

    def wrapped(self, model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
        if self.variant in SHARDED:
            return self.sharded(model)
        if self.variant not in REPLICATED:
            return model
        ddp = DistributedDataParallel(
            model,
            device_ids=[self.device] if self.device.type == "cuda" else None,
            broadcast_buffers=False,  # they are constants
            gradient_as_bucket_view=self.variant != "ddp",
        )
        return torch.compile(ddp) if self.variant.endswith("compile") else ddp

    def sharded(self, model: nn.Module) -> nn.Module:
        """FSDP2 with its own mixed precision, not autocast: norm weights are low-precision, too."""
        scattered = self.low if self.variant == "fsdp-bf16" else torch.float32
        precision = MixedPrecisionPolicy(param_dtype=self.low, reduce_dtype=scattered)
        keeps = self.variant == "fsdp-keep"
        for block in model.blocks:
            if self.variant.endswith("compile"):
                block.compile()
            fully_shard(block, mp_policy=precision, reshard_after_forward=not keeps)
        return fully_shard(model, mp_policy=precision)

    def send(self, parameter: Tensor) -> None:
        self.pending.append(dist.all_reduce(parameter.grad, self.average, async_op=True))

    def exchange(self) -> None:
        """Averages the gradients over ranks. DDP and FSDP modules have done so in backward."""
        if self.variant in REPLICATED + SHARDED:
            return
        gradients = [parameter.grad for parameter in self.parameters]
        if self.variant == "flat":
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(flat, self.average)
            parts = flat.split([gradient.numel() for gradient in gradients])
            shaped = [p.view_as(g) for p, g in zip(parts, gradients, strict=True)]
            torch._foreach_copy_(gradients, shaped)
        elif self.variant == "naive":
            for gradient in gradients:
                dist.all_reduce(gradient, self.average)
        while self.pending:
            self.pending.pop().wait()
        if self.divisor > 1:
            torch._foreach_div_(gradients, self.divisor)

    def step(self) -> None:
        # Frees the last gradients before forward allocates activations.
        self.optimizer.zero_grad(set_to_none=True)
        casts = self.low is not None and self.variant not in SHARDED
        with torch.autocast(self.device.type, self.low, enabled=casts):
            loss = self.loss(self.tokens, self.targets)
        loss.backward()
        self.marks = [self.clock.mark()]
        self.exchange()
        self.marks.append(self.clock.mark())
        self.optimizer.step()

    def sample(self) -> tuple[float, float]:
        """(seconds of a step, seconds from the end of backward to the start of the optimizer)."""
        self.clock.synchronize()
        dist.barrier()
        self.clock.synchronize()
        began = time.perf_counter()
        self.step()
        self.clock.synchronize()
        return time.perf_counter() - began, self.clock.seconds(*self.marks)


def max_over_ranks(numbers: list[list[float]], device: torch.device) -> list[list[float]]:
    x = torch.tensor(numbers, dtype=torch.float64, device=device)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    return x.tolist()


def measure(options: argparse.Namespace, variant: str, device: torch.device) -> dict[str, object]:
    began = time.perf_counter()
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    trainer = Trainer(options, variant, device)
    for _ in range(options.warmup):
        trainer.step()
    trainer.clock.synchronize()
    setup = time.perf_counter() - began
    samples = max_over_ranks([trainer.sample() for _ in range(options.steps)], device)
    steps, exposed = (sorted(column) for column in zip(*samples, strict=True))
    peak = torch.cuda.max_memory_allocated() if cuda else 0
    [[setup, peak]] = max_over_ranks([[setup, peak]], device)
    return {
        "mode": "train-step",
        "status": "ok",
        "step_median_s": statistics.median(steps),
        "step_min_s": steps[0],
        "step_max_s": steps[-1],
        "communication_exposed_median_s": (
            statistics.median(exposed) if variant in ("naive", "flat") else None
        ),
        "setup_s": setup,
        "peak_bytes": int(peak) if cuda else None,
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--attention", choices=ATTENTIONS, default="naive")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    for name, value in (("context", 128), ("batch-size", 4), ("vocab", 10000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    names = ("RANK", "SIZE", "LOCAL_RANK")
    rank, ranks, local = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in names)
    cuda = options.device == "cuda" or (options.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29512")
    if cuda:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        rank=rank,
        world_size=ranks,
        device_id=device if cuda else None,
    )
    factors = {name: getattr(options, name) for name in ("size", "context", "batch_size")}
    factors |= {"precision": options.precision, "attention": options.attention, "ranks": ranks}
    for variant in options.variants:
        row = {"software": f"PyTorch {torch.__version__}", "variant": variant} | factors
        try:
            row |= measure(options, variant, device)
        except torch.cuda.OutOfMemoryError as error:
            # All ranks have the same model and batch size, so all of them run out of memory and
            # none is left waiting in a collective.
            row |= {"status": "oom", "reason": str(error).splitlines()[0]}
        torch._dynamo.reset()
        gc.collect()  # gradient hooks form reference cycles
        if cuda:
            torch.cuda.empty_cache()
        if rank == 0:
            print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
