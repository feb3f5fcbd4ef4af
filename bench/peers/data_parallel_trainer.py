"""One rank of a data-parallel step in PyTorch, by the variants of data_parallel_cases.py."""

import argparse
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from adamw import CompiledAdamW, foreach, with_masters
from data_parallel_cases import variant
from gpu import HALF, fastest_backend, synchronize
from timing import seconds_of
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from transformer import Form, Transformer, compile_settings


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


class Trainer:
    """One rank's replica with its optimizer and batch. `step` is the timed step."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        self.variant = variant(options.variant)
        self.device = device
        self.low = HALF.get(options.precision)
        self.clock = Clock(device)
        self.marks: list[torch.cuda.Event | float] = []
        self.pending: list[dist.Work] = []
        backend = fastest_backend(options) if options.attention == "flash" else ""
        form = Form(options.attention, backend, self.variant.fused_matmuls)
        torch.manual_seed(0)  # every rank has the same weights
        with device:
            model = Transformer(options.size, options.vocab, options.context, form)
        torch.manual_seed(1 + dist.get_rank())
        rows = torch.randint(options.vocab, (options.batch_size, options.context + 1)).to(device)
        self.tokens, self.targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        # NCCL averages, as in paceline; gloo only sums.
        self.average = dist.ReduceOp.AVG if self.clock.cuda else dist.ReduceOp.SUM
        self.divisor = 1 if self.clock.cuda else dist.get_world_size()
        self.settings = compile_settings(options)
        masters = with_masters(model, self.low if self.variant.master_weights else None)
        if self.variant.compiled == "parts":
            model.compile_parts(**self.settings)
        self.loss_of = self.wrapped(model)
        self.optimizer = self.optimizer_of(model, masters)
        # Backward finishes the gradients of the last parameters first.
        self.parameters = list(model.parameters())[::-1]
        if self.variant.strategy == "overlap":
            for parameter in self.parameters:
                parameter.register_post_accumulate_grad_hook(self.send)

    def optimizer_of(
        self, model: nn.Module, masters: list[Tensor]
    ) -> torch.optim.Optimizer | CompiledAdamW:
        cuda = self.clock.cuda
        if self.variant.master_weights:
            return CompiledAdamW(model.parameters(), masters, foreach, self.settings)
        settings = {"fused": cuda, "capturable": cuda and self.variant.captured}
        if self.variant.strategy != "zero":
            return torch.optim.AdamW(model.parameters(), **settings)
        return ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=True, **settings
        )

    def wrapped(self, model: Transformer) -> Callable[[Tensor, Tensor], Tensor]:
        if self.variant.strategy == "fsdp":
            return self.sharded(model)
        if self.variant.strategy not in ("ddp", "zero"):
            return model
        ddp = DistributedDataParallel(
            model,
            device_ids=[self.device] if self.clock.cuda else None,
            broadcast_buffers=False,  # they are constants
            gradient_as_bucket_view=self.variant.bucket_view,
            static_graph=self.variant.static_graph,
            bucket_cap_mb=self.variant.bucket_mb,
        )
        if self.variant.low_gradients:
            ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        return torch.compile(ddp, **self.settings) if self.variant.compiled == "model" else ddp

    def sharded(self, model: Transformer) -> nn.Module:
        """FSDP2 with its own mixed precision, not autocast: norm weights are low-precision, too."""
        scattered = self.low if self.variant.low_gradients else torch.float32
        # The tables of RoPE are inputs of blocks and stay in float32.
        precision = MixedPrecisionPolicy(self.low, scattered, cast_forward_inputs=False)
        for block in model.blocks:
            fully_shard(block, mp_policy=precision, reshard_after_forward=self.variant.reshard)
        return fully_shard(model, mp_policy=precision)

    def send(self, parameter: Tensor) -> None:
        self.pending.append(dist.all_reduce(parameter.grad, self.average, async_op=True))

    def exchange(self) -> None:
        """Averages the gradients over ranks. DDP and FSDP modules have done so in backward."""
        if self.variant.strategy in ("ddp", "zero", "fsdp"):
            return
        gradients = [parameter.grad for parameter in self.parameters]
        if self.variant.strategy == "flat":
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(flat, self.average)
            parts = flat.split([gradient.numel() for gradient in gradients])
            shaped = [p.view_as(g) for p, g in zip(parts, gradients, strict=True)]
            torch._foreach_copy_(gradients, shaped)
        elif self.variant.strategy == "naive":
            for gradient in gradients:
                dist.all_reduce(gradient, self.average)
        while self.pending:
            self.pending.pop().wait()
        if self.divisor > 1:
            torch._foreach_div_(gradients, self.divisor)

    def step(self) -> None:
        # Frees the last gradients before forward allocates activations.
        self.optimizer.zero_grad(set_to_none=True)
        casts = (
            self.low is not None
            and self.variant.strategy != "fsdp"
            and not self.variant.master_weights
        )
        with torch.autocast(self.device.type, self.low, enabled=casts):
            loss = self.loss_of(self.tokens, self.targets)
        self.loss = loss.detach()
        loss.backward()
        self.marks = [self.clock.mark()] if not self.variant.captured else []
        self.exchange()
        if not self.variant.captured:
            self.marks.append(self.clock.mark())
        self.optimizer.step()

    def sample(self, step: Callable[[], None]) -> float:
        """Seconds of a step on this rank."""
        synchronize()
        dist.barrier()
        return seconds_of(step, synchronize)

    def exposed(self) -> float:
        """Seconds from the end of the last step's backward to the start of the optimizer."""
        return self.clock.seconds(*self.marks)
