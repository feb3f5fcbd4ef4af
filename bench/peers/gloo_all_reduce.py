"""all_reduce of floats through PyTorch's gloo backend, for comparison with `collectives`.

    mpirun -np 4 python3 bench/peers/gloo_all_reduce.py STEPS BYTES...

A sample is one call after a barrier; its time is the maximum over ranks. Rank 0 prints one JSON
line per size.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

WARMUP = 5


def sample(x: torch.Tensor) -> float:
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(x)
    seconds = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return float(seconds)


def main() -> None:
    steps, *sizes = map(int, sys.argv[1:])
    rank, ranks = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in sizes:
        x = torch.ones(size // 4)
        times = [sample(x) for _ in range(WARMUP + steps)][WARMUP:]
        if rank == 0:
            row = {"software": f"PyTorch {torch.__version__}", "variant": "gloo"}
            row |= {"op": "all_reduce", "ranks": ranks, "bytes": size // 4 * 4, "steps": steps}
            print(json.dumps(row | {"time_median_s": statistics.median(times)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
