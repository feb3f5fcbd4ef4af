"""A training step in PyTorch, eager, compiled and captured, for comparison with paceline's `model`.

    python3 bench/peers/train_step.py --size small --precision bf16 --attention flash

Prints one JSON line per variant, with paceline's column names and all samples. The model is the
course's (transformer.py). Attention is naive (stores the T x T matrix) or flash
(scaled_dot_product_attention with the fastest backend at the case's shape).

Variants (step_cases.py): eager, and torch.compile of the model with its loss in the modes default
("compile"), reduce-overhead and max-autotune-no-cudagraphs, all with float32 weights, autocast and
fused AdamW. The "captured" variants run the whole step (as much of forward, backward and optimizer
as --mode selects) as one CUDA graph, without Python; reduce-overhead has none, because it uses CUDA
graphs itself. "tuned" is captured, with fused matmuls and a compiled AdamW; "master-weights" has
low-precision weights beside float32 masters, too. Suffixes change a variant: tuned+in-backward.

`loss` is that of step 6, whose last three run in the graph of a captured variant: it is the same in
all variants of a precision, but for rounding. `peak_bytes` is that of a steady step.
"""

import argparse
import gc
import json
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
from adamw import CompiledAdamW, each, foreach, with_masters
from gpu import CAPTURE_WARMUP, HALF, captured, fastest_backend, software, synchronize
from step_cases import (
    ATTENTIONS,
    MODES,
    PRECISIONS,
    VARIANTS,
    Variant,
    variant,
    variant_name,
)
from timing import measured, seconds_of
from torch import nn
from transformer import Form, Transformer, compile_settings

UPDATES = {"each": each, "foreach": foreach}
LOSS_STEP = 6


class Trainer:
    """One model with its optimizer and batch. `step` is the timed step."""

    def __init__(self, options: argparse.Namespace, chosen: Variant, backend: str) -> None:
        self.mode = options.mode
        self.device = torch.device(options.device)
        low = HALF.get(options.precision)
        self.autocast = None if chosen.master_weights else low
        form = Form(options.attention, backend, chosen.fused_matmuls, chosen.fp32_residual)
        torch.manual_seed(0)
        with self.device:
            model = Transformer(options.size, options.vocab, options.context, form)
            rows = torch.randint(options.vocab, (options.batch_size, options.context + 1))
        self.tokens, self.targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        if chosen.fp8:
            in_fp8(model)
        self.settings = compile_settings(options)
        self.optimizer = self.optimizer_of(model, chosen, low)
        self.in_backward = chosen.in_backward
        self.model = compiled(model, chosen, compile_settings(options, chosen.compile_mode))

    def optimizer_of(
        self, model: nn.Module, chosen: Variant, low: torch.dtype | None
    ) -> torch.optim.Optimizer | CompiledAdamW:
        if chosen.optimizer == "fused":
            capturable = self.device.type == "cuda"
            return torch.optim.AdamW(model.parameters(), fused=True, capturable=capturable)
        masters = with_masters(model, low if chosen.master_weights else None)
        update = UPDATES[chosen.optimizer]
        optimizer = CompiledAdamW(model.parameters(), masters, update, self.settings)
        if chosen.in_backward:
            optimizer.update_in_backward()
        return optimizer

    def step(self) -> None:
        # Needed for --mode forward: CUDA graph trees see the end of a step only in its backward.
        torch.compiler.cudagraph_mark_step_begin()
        # Frees the last gradients before forward allocates activations.
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, self.autocast, enabled=self.autocast is not None):
            loss = self.model(self.tokens, self.targets)
        self.loss = loss.detach()
        if self.mode == "forward":
            return
        if self.in_backward:
            self.optimizer.begin()
        loss.backward()
        if self.mode == "train-step" and not self.in_backward:
            self.optimizer.step()

    def capture(self) -> Callable[[], None]:
        """The step as one CUDA graph, which allocates the gradients anew in its memory pool."""
        self.optimizer.zero_grad(set_to_none=True)
        return captured(self.step)


def in_fp8(model: Transformer) -> None:
    """The matmuls of the blocks in FP8. Raises ImportError without torchao."""
    from torchao.float8 import convert_to_float8_training

    convert_to_float8_training(model.blocks)


def compiled(model: Transformer, chosen: Variant, settings: dict[str, object]) -> nn.Module:
    if not chosen.compile_mode:
        return model
    if not chosen.parts:
        return torch.compile(model, **settings)
    model.compile_parts(**settings)
    return model


def measure(options: argparse.Namespace, chosen: Variant, backend: str) -> dict[str, object]:
    cuda = options.device == "cuda"
    began = time.perf_counter()
    trainer = Trainer(options, chosen, backend)
    trainer.step()
    synchronize()
    compile_s = time.perf_counter() - began
    for _ in range(1, CAPTURE_WARMUP):
        trainer.step()
    step = trainer.step
    if chosen.captured:
        torch.cuda.reset_peak_memory_stats()
        step = trainer.capture()
    for _ in range(CAPTURE_WARMUP, LOSS_STEP):
        step()
    loss = float(trainer.loss)
    setup = time.perf_counter() - began
    if cuda and not chosen.captured:
        torch.cuda.reset_peak_memory_stats()

    def sample() -> float:
        return seconds_of(step, synchronize)

    row = {"status": "ok", "loss": loss, "compile_s": compile_s, "setup_s": setup}
    row |= measured(sample, options.warmup, options.max_warmup, options.steps)
    # A replay of reduce-overhead's graphs allocates nothing.
    if cuda and chosen.compile_mode != "reduce-overhead":
        row["peak_bytes"] = torch.cuda.max_memory_allocated()
    if cuda:
        row["reserved_bytes"] = torch.cuda.memory_reserved()
    return row


def outcome(options: argparse.Namespace, name: str, fastest: str) -> dict[str, object]:
    """The row of a variant. A failure must not end the other variants."""
    chosen = variant(name)
    backend = (chosen.backend or fastest) if options.attention == "flash" else ""
    row = {"variant": name, "exec": "compiled" if chosen.compile_mode else "eager"}
    row |= {"optimizer": "in-backward" if chosen.in_backward else "serial", "sdpa_backend": backend}
    if chosen.captured and options.device == "cpu":
        return row | {"status": "skipped", "reason": "CUDA graphs need a GPU"}
    if chosen.in_backward and options.mode != "train-step":
        return row | {"status": "skipped", "reason": "only with --mode train-step"}
    signal.alarm(options.limit)
    try:
        return row | measure(options, chosen, backend)
    except torch.cuda.OutOfMemoryError as error:
        return row | {"status": "oom", "reason": str(error).splitlines()[0]}
    except ImportError as error:
        return row | {"status": "skipped", "reason": str(error)}
    except Exception as error:
        traceback.print_exc()
        return row | {"status": "failed", "reason": f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.alarm(0)


def rows(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    case = {"software": software(), "ranks": 1}
    names = ("size", "context", "batch_size", "precision", "attention", "mode", "warmup",
             "max_warmup", "steps", "vocab")  # fmt: skip
    case |= {name: getattr(options, name) for name in names}
    fastest = fastest_backend(options) if options.attention == "flash" else ""
    read = (line.strip() for line in iter(sys.stdin.readline, ""))
    for name in read if options.serve else options.variants:
        yield case | outcome(options, name, fastest)
        if variant(name).compile_mode == "reduce-overhead":
            torch._dynamo.reset()  # its graphs keep their memory
        gc.collect()
        if options.device == "cuda":
            torch.cuda.empty_cache()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="small", help="a name, or D_MODELxD_FFxLAYERSxHEADS")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--attention", choices=ATTENTIONS, default="naive")
    parser.add_argument("--mode", choices=MODES, default="train-step")
    parser.add_argument("--variants", nargs="+", type=variant_name, default=list(VARIANTS))
    parser.add_argument(
        "--serve", action="store_true", help="read variants from stdin, one a line, instead"
    )
    for name, value in (("context", 128), ("batch-size", 4), ("vocab", 10000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--max-warmup", type=int, default=30)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--limit", type=int, default=300, help="seconds for a variant")
    parser.add_argument("--compiler", default="inductor", help="aot_eager in tests")
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", choices=["cpu", "cuda"], default=default)
    return parser.parse_args()


def expired(_signal: int, _frame: object) -> None:
    raise TimeoutError("the time limit of a variant")


def main() -> None:
    options = parsed()
    signal.signal(signal.SIGALRM, expired)
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    # A process measures many variants, whose blocks share code.
    torch._dynamo.config.recompile_limit = 256
    # Inputs are made on a side stream: graph capture must not touch the default stream, with which
    # autograd would otherwise synchronize.
    cuda = options.device == "cuda"
    with torch.cuda.stream(torch.cuda.Stream()) if cuda else nullcontext():
        for row in rows(options):
            print(json.dumps(row), flush=True)
            ok = row["status"] == "ok"
            outcome = f"{1e3 * row['step_median_s']:.2f} ms" if ok else row["reason"]
            print(f"{row['variant']}: {outcome}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
