"""All-reduce over ranks, sizes and backends (distributed_communication_single_node)."""

from math import isnan

from numpy import isfinite
from pandas import DataFrame, Series, concat

from ..formatting import figure
from ..result_file import device_of
from ..results import Results
from ..tables import recorded
from . import comparisons_parallel, published
from .facts import Case, cases, distinct, matching
from .section import Section, drawings
from .selection import cases_tables, of_experiment, tables_of
from .sentences import in_words, spanned

OP = "all_reduce"  # the course's
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
        sentences=[*bandwidths(best), *by_backend(own), *fits(chosen)],
        tables=[*cases_tables(chosen), *tables_of(chosen, recorded.build, "fit")],
        drawings=drawings("collectives", chosen, ["collectives"]),
        published=published.tables(comparisons_parallel.collectives(cases(found))),
        headline=next(iter(bandwidths(best)), ""),
    )


def bus_bandwidth(case: Case) -> float:
    return case.number("busbw_bytes_per_s")


def bandwidths(best: list[Case]) -> list[str]:
    """One sentence on every backend, the fastest first."""
    told = map(bandwidth_of, sorted(best, key=bus_bandwidth, reverse=True))
    return [f"{'; '.join(told)}."] if best else []


def bandwidth_of(case: Case) -> str:
    rate = figure(bus_bandwidth(case) / 1e9, 3)
    return (
        f"{case.get('backend').upper()} reaches a bus bandwidth of {rate} GB/s "
        f"({case.get('op')} of {size_of(case)}, {in_words('ranks', case.get('ranks'))}"
        f"{on_machine(case.hardware)})"
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


def fits(chosen: list[Results]) -> list[str]:
    """A sentence on each backend; every fit is in the table."""
    tables = [
        results.file_tables["fit"].assign(hardware=results.runs[0].hardware)
        for results in chosen
        if "fit" in results.file_tables
    ]
    if not tables:
        return []
    fitted = concat(tables, ignore_index=True)
    return [fits_of(own, backend) for backend, own in fitted.groupby("backend", sort=False)]


def fits_of(own: DataFrame, backend: str) -> str:
    """The range of the fits, of all_reduce if there are some."""
    asked = own[own["op"] == OP] if OP in set(own["op"]) else own
    ops = " and ".join(dict.fromkeys(asked["op"]))
    ranks = in_words("ranks", spanned(asked["ranks"], "", 1))
    named = (device_of(name) for machine in asked["hardware"] for name in machine.split(", "))
    devices = ", ".join(filter(None, dict.fromkeys(named)))
    count = "Fit" if len(asked) == 1 else f"{len(asked)} fits"
    worst = spanned(100 * asked["worst_relative_error"], "%", 2)
    return (
        f"{count} of {ops}, {backend.upper()}, {ranks}{on_machine(devices)}: "
        f"{spanned(1e6 * asked['latency_s'], ' µs')}{of_bytes(asked['bandwidth_bytes_per_s'])}; "
        f"the measured time furthest from a fit is {worst} off."
    )


def of_bytes(bandwidths: Series) -> str:
    """The part of fits that grows with the size."""
    finite = bandwidths[isfinite(bandwidths)]
    return f" + bytes / ({spanned(finite / 1e9, ' GB/s')})" if len(finite) else ""


def on_machine(hardware: str) -> str:
    return f" on {hardware}" if hardware else ""
