"""Memory and communication on paper (communication_accounting)."""

from ..results import Results
from . import closed_forms, comparisons_parallel, published
from .section import Section, drawings, grid
from .selection import of_experiment
from .sentences import gib


def of_step(tokens: float) -> str:
    devices = closed_forms.X * closed_forms.Y
    return f"{tokens / devices:.0f} tokens per device ({tokens:,.0f} in all)"


def section(found: list[Results]) -> Section:
    rows = [
        [quantity, formula, f"{value:,}", gib(value) if unit else ""]
        for quantity, formula, value, unit in closed_forms.ROWS
    ]
    table = grid(
        "accounting-closed-forms",
        "Closed forms",
        ["Of xxl: L = 126 blocks of two matrices, D = 16,384, F = 53,248, P parameters. H100s and "
         "TPUs are counted in GB of 10^9 bytes. Of the mesh: X = 16 ranks of FSDP by Y = 4 "
         "tensor-parallel ones, M_X = 2 and M_Y = 1 links of W = 2 x 9e10 bytes/s, C = 4.6e14 "
         "FLOP/s."],
        ["quantity", "formula", "value (bytes or count)", "as GiB and GB"],
        rows,
    )  # fmt: skip
    predicted = of_experiment(found, "model")[:1]
    return Section(
        name="accounting",
        title="How much memory and communication does xxl need?",
        problem="communication_accounting (a) to (d)",
        question="How much memory do weights, gradients and optimizer state of xxl take in fp32, "
        "how much is kept for backward, and how many GPUs is that? From which batch on is it "
        "compute bound?",
        command="build/paceline plan --preset xxl",
        sentences=[
            f"Weights, gradients and Adam's state of xxl take {gib(closed_forms.STATE)}: "
            f"{closed_forms.PUBLISHED['devices of 80 GB']} H100s of 80 GB for these alone.",
            f"In bf16 a token keeps {closed_forms.SAVED_PER_TOKEN / 1e6:.1f} MB for backward.",
            "With the state and half of a token's activations sharded over N devices, "
            f"{closed_forms.RANKS} TPUs of 95 GB hold it.",
            f"Forward is compute bound from {of_step(closed_forms.OVERLAPPED)} on if communication "
            f"overlaps it, from {of_step(closed_forms.SERIAL)} on if gathers of parameters and the "
            "exchange of activations follow one another.",
            "A smaller batch suffices with fewer bytes to gather (more tensor parallelism, fp8) or "
            "more links for them; a longer context has the same tokens in fewer sequences.",
            "build/paceline plan --preset xxl prints these with every formula's numbers, and other "
            "layouts.",
        ],
        tables=[table],
        drawings=drawings("accounting", predicted, ["predicted-memory"]),
        published=published.tables(comparisons_parallel.accounting()),
    )
