"""Memory and communication on paper (communication_accounting)."""

from ..results import Results
from . import closed_forms, comparisons_parallel, published
from .section import Section, drawings, grid
from .selection import of_experiment
from .sentences import gib


def section(found: list[Results]) -> Section:
    rows = [
        [quantity, formula, f"{value:,}", gib(value) if unit else ""]
        for quantity, formula, value, unit in closed_forms.ROWS
    ]
    table = grid(
        "accounting-closed-forms",
        "Closed forms",
        ["Of xxl: L = 126 blocks of two matrices, D = 16,384, F = 53,248, P parameters. H100s and "
         "TPUs are counted in GB of 10^9 bytes."],
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
            "build/paceline plan --preset xxl prints the batch from which on a layout is compute "
            "bound, with every formula's numbers.",
        ],
        tables=[table],
        drawings=drawings("accounting", predicted, ["predicted-memory"]),
        published=published.tables(comparisons_parallel.accounting()),
    )
