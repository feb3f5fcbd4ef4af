"""A data-parallel training step in PyTorch, for comparison with paceline's `ddp` and `zero`.

    mpirun -np 2 python3 bench/peers/data_parallel_step.py --size small --variant ddp+view

Prints one JSON line, with paceline's column names and the samples of all ranks. The model and the
precision are those of train_step.py; AdamW is fused on GPUs; every variant (data_parallel_cases.py)
averages gradients over ranks.

naive    after backward, one all_reduce per parameter
flat     after backward, one all_reduce of a flattened copy of all gradients
overlap  a hook starts the all_reduce of each parameter as soon as its gradient is ready
ddp      DistributedDataParallel with its defaults (buckets of 25 MB)
zero     ddp with ZeroRedundancyOptimizer around AdamW, parameters_as_bucket_view=True
fsdp     FSDP2: fully_shard of every block and of the model; parameters are gathered in the low
         precision, gradients are reduce-scattered in float32, as in paceline

A sample is the host time of one step after a barrier, with the device synchronized before and after
it; its time is the maximum over ranks. communication_exposed is the time of naive and flat from the
end of backward to the averaged gradients, by events on the compute stream.

A rank on which the step fails prints a row that says so and ends; mpirun then ends the others, who
may be waiting for it in a collective. So one launch measures one variant.
"""

import argparse
import json
import os
import sys
import time
import traceback
from contextlib import nullcontext

import torch
import torch.distributed as dist
from data_parallel_cases import variant, variant_name
from data_parallel_trainer import Trainer
from gpu import captured, software, synchronize
from step_cases import ATTENTIONS, PRECISIONS, dimensions
from timing import summary, warmed_up

CAPTURE_WARMUP = 11  # DistributedDataParallel needs that many steps before a capture
LOSS_STEP = 14


def of_ranks(seconds: list[float], device: torch.device) -> list[list[float]]:
    """The samples of all ranks, [rank][repetition]."""
    own = torch.tensor(seconds, dtype=torch.float64, device=device)
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own)
    return [one.tolist() for one in every]


def slowest(sample: float, device: torch.device) -> float:
    """The maximum over ranks, so that all ranks end their warm-up together."""
    x = torch.tensor(sample, dtype=torch.float64, device=device)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    return float(x)


def measure(options: argparse.Namespace, device: torch.device) -> dict[str, object]:
    cuda = device.type == "cuda"
    began = time.perf_counter()
    trainer = Trainer(options, device)
    for _ in range(CAPTURE_WARMUP):
        trainer.step()
    step = trainer.step
    if trainer.variant.captured:
        synchronize()
        torch.cuda.reset_peak_memory_stats()
        trainer.optimizer.zero_grad(set_to_none=True)
        step = captured(step)
    for _ in range(CAPTURE_WARMUP, LOSS_STEP):
        step()
    loss = float(trainer.loss)
    if cuda and not trainer.variant.captured:
        torch.cuda.reset_peak_memory_stats()
    setup = time.perf_counter() - began
    warmup, reason = warmed_up(
        lambda: slowest(trainer.sample(step), device), options.warmup, options.max_warmup
    )
    seconds, exposed = [], []
    for _ in range(options.steps):
        seconds.append(trainer.sample(step))
        if trainer.variant.strategy in ("naive", "flat"):
            exposed.append(trainer.exposed())
    samples = {"communication_exposed": of_ranks(exposed, device)} if exposed else {}
    samples["step"] = of_ranks(seconds, device)
    row = {"status": "ok", "loss": loss, "setup_s": setup, "warmup_reason": reason}
    for phase, times in samples.items():
        row |= summary(phase, times)
    if cuda:
        row["peak_bytes"] = slowest(torch.cuda.max_memory_allocated(), device)
        row["reserved_bytes"] = slowest(torch.cuda.memory_reserved(), device)
    # The warm-up's samples are maxima over ranks, the same for every rank.
    return row | {"samples": samples, "samples_warmup": {"step": [warmup] * len(samples["step"])}}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small", help="a name, or D_MODELxD_FFxLAYERSxHEADS")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--attention", choices=ATTENTIONS, default="naive")
    parser.add_argument("--variant", type=variant_name, default="ddp")
    for name, value in (("context", 128), ("batch-size", 4), ("vocab", 10000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--max-warmup", type=int, default=30)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compiler", default="inductor", help="aot_eager in tests")
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=["cpu", "cuda"], default=default)
    return parser.parse_args()


def start(cuda: bool) -> torch.device:
    """Joins the process group of the launch by mpirun or torchrun; returns the rank's device."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
    rank, ranks, local = (int(os.environ[name]) for name in names)
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29512")
    # The thread that watches collectives queries events, which a capture forbids.
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    if cuda:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        rank=rank,
        world_size=ranks,
        device_id=device if cuda else None,
    )
    return device


def main() -> None:
    options = parsed()
    dimensions(options.size)
    cuda = options.device == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    torch._dynamo.config.recompile_limit = 256
    device = start(cuda)
    names = ("size", "context", "batch_size", "precision", "attention", "warmup", "max_warmup",
             "steps", "vocab", "variant")  # fmt: skip
    row = {"software": software(), "mode": "train-step", "ranks": dist.get_world_size()}
    row |= {name: getattr(options, name) for name in names}
    row["exec"] = "compiled" if variant(options.variant).compiled else "eager"
    side = torch.cuda.Stream() if cuda else None
    try:
        if variant(options.variant).captured and not cuda:
            row |= {"status": "skipped", "reason": "CUDA graphs need a GPU"}
        else:
            with torch.cuda.stream(side) if cuda else nullcontext():
                row |= measure(options, device)
    except Exception as error:
        traceback.print_exc()
        is_oom = isinstance(error, torch.cuda.OutOfMemoryError)
        row |= {"status": "oom" if is_oom else "failed"}
        row["reason"] = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps(row), flush=True)
        sys.stderr.flush()
        os._exit(1)  # the other ranks may be waiting in a collective: mpirun ends them
    if dist.get_rank() == 0:
        print(json.dumps(row), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
