"""PyTorch's, cuDNN's and NCCL's times beside ours on the same machine (bench/peers/)."""

from ..results import Results
from .section import Section
from .selection import cases_tables


def section(found: list[Results]) -> Section:
    chosen = [results for results in found if results.experiment.endswith("-peers")]
    return Section(
        name="peers",
        title="How does it compare with PyTorch on the same machine?",
        problem="beside the course",
        question="The same work by PyTorch, cuDNN and NCCL, measured on the same GPU as ours.",
        command="python3 bench/peers/train_step_ratios.py, attention_ratios.py, "
        "collective_ratios.py or data_parallel_ratios.py",
        sentences=[f"{len(r.frame)} rows: {r.runs[0].path.name}." for r in chosen],
        tables=cases_tables(chosen),
    )
