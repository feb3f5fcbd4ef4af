"""The factors that a sweep varies: their order in names of cases, and which of them to show."""

from collections.abc import Sequence

import pandas as pd

from .formatting import text

# Attributes of a case that are not factors of the sweep.
NOT_FACTORS = {
    "status", "reason", "warmup_reason", "stop_reason", "warnings", "created", "run",
    "slurm_job_id", "array_task", "restart",
}  # fmt: skip
# Factors that say how long was measured and what else was recorded.
EFFORT = {
    "seed", "warmup", "max_warmup", "steps", "min_time", "until_ci", "max_steps", "timeout",
    "memory_timeline", "profile",
}  # fmt: skip
# The order of factors in the name of a case; others follow by name.
FACTOR_ORDER = (
    "study", "software", "variant", "backend", "op", "size", "d_model", "d_ff", "layers", "heads",
    "vocab", "causal", "head_dim", "context", "batch_size", "global_batch", "precision",
    "attention", "fp32_attention", "flash_kernels", "exec", "mode", "optimizer", "recompute",
    "sync", "shard", "bucket_mb", "comm_dtype", "registration", "timing", "device", "ranks",
    "threads", "warmup", "steps", "bytes",
)  # fmt: skip
# Factors that are implied by another one.
IMPLIED_BY = {
    "d_model": "size", "d_ff": "size", "layers": "size", "heads": "size", "parameters": "size",
    "global_batch": "batch_size", "software": "variant",
}  # fmt: skip
# Values of a factor that does not apply, such as bucket_mb if nothing is sent.
NOTHING = ("", "none")
# The subject of a sweep: always shown, even if its options would distinguish the cases.
ALWAYS_NAMED = ("sync", "shard")


def in_order(factors: set[str]) -> list[str]:
    """Known factors first; `file`, by which runs are compared, last."""
    listed = [name for name in FACTOR_ORDER if name in factors]
    last = factors & {"file"}
    return [*listed, *sorted(factors - set(listed) - last), *last]


def varying(frame: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Factors that differ between cases, without those that other factors imply."""
    values = frame[list(factors)].map(text)
    differ = [name for name in factors if values[name].nunique() > 1]
    differ = [name for name in differ if not implied(frame, name, differ)]
    for name in reversed([name for name in differ if name not in ALWAYS_NAMED]):
        others = [other for other in differ if other != name]
        applies = values.loc[~values[name].isin(NOTHING), name]
        # One value wherever the factor applies: implied by the other factors.
        if (
            others
            and applies.nunique() == 1
            and distinct(values[others]) == distinct(values[differ])
        ):
            differ = others
    return differ


def implied(frame: pd.DataFrame, name: str, differ: Sequence[str]) -> bool:
    by = IMPLIED_BY.get(name)
    return by in differ and frame.groupby(by)[name].nunique().max() == 1


def distinct(values: pd.DataFrame) -> int:
    return len(values.drop_duplicates())
