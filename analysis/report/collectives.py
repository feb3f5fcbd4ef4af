"""All-reduce over ranks, sizes and backends (distributed_communication_single_node)."""

from math import isfinite, isnan

import pandas as pd

from ..formatting import case_label, figure, text
from ..results import Results
from ..tables import recorded
from ..tables.table import Table
from . import comparisons_parallel, published
from .facts import Case, cases, distinct, matching
from .section import Section, drawings, narrowed
from .selection import cases_tables, of_experiment, tables_of
from .sentences import in_words

# Factors that name a fit in every file.
NAMED = ("op", "backend", "ranks")
# Factors that a case of one backend shares with that of another which it is compared with.
SAME = ("op", "bytes", "ranks", "dtype", "redop", "in_place", "registration", "cadence", "cache")


def section(found: list[Results]) -> Section:
    chosen = of_experiment(found, "collectives")
    own = [case for case in cases(chosen) if not isnan(case.seconds("time"))]
    rated = [case for case in own if bus_bandwidth(case) > 0 and case.number("ranks") > 1]
    best = [max(matching(rated, backend=backend), key=bus_bandwidth)
            for backend in distinct(rated, "backend")]  # fmt: skip
    return Section(
        name="collectives",
        title="How fast are collectives?",
        problem="distributed_communication_single_node",
        question="How long does all-reduce take by backend, number of ranks and size, and how do "
        "these work together?",
        command="mpirun --oversubscribe -np 6 build/paceline collectives --preset single-node "
        "--fit",
        sentences=[*map(bandwidth_of, best), *by_backend(own), *fits(chosen)],
        tables=[*cases_tables(chosen), *fit_tables(chosen)],
        drawings=drawings("collectives", chosen, ["collectives"]),
        published=published.tables(comparisons_parallel.collectives(cases(found))),
        headline=bandwidth_of(max(best, key=bus_bandwidth)) if best else "",
    )


def fit_tables(chosen: list[Results]) -> list[Table]:
    return [narrowed(table, ["worst"]) for table in tables_of(chosen, recorded.build, "fit")]


def bus_bandwidth(case: Case) -> float:
    return case.number("busbw_bytes_per_s")


def bandwidth_of(case: Case) -> str:
    return (
        f"{case.get('backend')} reaches a bus bandwidth of {figure(bus_bandwidth(case) / 1e9, 3)} "
        f"GB/s ({case.get('op')} of {size_of(case)}, {in_words('ranks', case.get('ranks'))}"
        f"{on_machine(case.hardware)})."
    )


def size_of(case: Case) -> str:
    return f"{figure(case.number('bytes') / 1e6, 3)} MB"


def by_backend(own: list[Case]) -> list[str]:
    """The largest and the smallest size that both backends have in one file with the same
    collective and number of ranks."""
    shared = [
        (mpi, nccl)
        for mpi in matching(own, backend="mpi")
        for nccl in matching(own, backend="nccl", **{name: mpi.get(name) for name in SAME})
        if nccl.results is mpi.results
    ]
    if not shared:
        return []
    shared.sort(key=lambda pair: pair[0].number("bytes"))
    ends = dict.fromkeys([0, len(shared) - 1])
    told = ", ".join(
        f"{figure(mpi.seconds('time') / nccl.seconds('time'), 3)} times as long for "
        f"{mpi.get('op')} of {size_of(mpi)} on {mpi.get('ranks')} ranks"
        for mpi, nccl in (shared[index] for index in ends)
    )
    return [f"MPI in host memory takes, beside NCCL, {told}."]


def of_bytes(bandwidth: float) -> str:
    """The part of a fit that grows with the size."""
    return f" + bytes / ({figure(bandwidth / 1e9, 3)} GB/s)" if isfinite(bandwidth) else ""


def fits(chosen: list[Results]) -> list[str]:
    return [
        f"Fit of {name_of_fit(results, row)}: "
        f"{figure(1e6 * row['latency_s'], 3)} µs{of_bytes(row['bandwidth_bytes_per_s'])}; the "
        f"measured time furthest from it is {100 * row['worst_relative_error']:.0f}% off."
        for results in chosen
        if "fit" in results.file_tables
        for _, row in results.file_tables["fit"].iterrows()
    ]


def name_of_fit(results: Results, row: pd.Series) -> str:
    """The collective, the backend, other factors that vary in the file, ranks and hardware."""
    others = [name for name in results.varying if name in row and name not in NAMED]
    names = ["op", "backend", *others]
    kind = case_label(names, [text(row[name]) for name in names])
    ranks = in_words("ranks", text(row["ranks"]))
    return f"{kind}, {ranks}{on_machine(results.runs[0].hardware)}"


def on_machine(hardware: str) -> str:
    return f" on {hardware}" if hardware else ""
