"""The choice of files for each question, by the factors they vary and the data they have."""

from collections.abc import Callable
from dataclasses import replace

from ..result_file import stem
from ..results import Results
from ..tables import cases, warmup
from ..tables.spread import Spread
from ..tables.table import Table
from .section import narrowed

# Columns that are shown elsewhere, or too wide for a page.
ASIDE = ("MFU, datasheet", "algorithm bandwidth", "sent", "optimizer state", "predicted peak",
         "warnings", "host", "overlapped", "tokens/s", "collectives")  # fmt: skip


def of_experiment(found: list[Results], name: str) -> list[Results]:
    return [results for results in found if results.experiment == name]


def has_profile(results: Results) -> bool:
    return any(group.startswith("profile/") for group in results.file_tables)


def is_model(results: Results) -> bool:
    return results.experiment == "model" and not has_profile(results)


def is_memory(results: Results) -> bool:
    kinds = results.frame.get("mode")
    timeline = results.constant.get("memory_timeline") == "true"
    return is_model(results) and (timeline or (kinds is not None and "inference" in set(kinds)))


def is_precision(results: Results) -> bool:
    return is_model(results) and not is_memory(results) and "precision" in results.varying


def is_compile(results: Results) -> bool:
    return is_model(results) and not is_memory(results) and "exec" in results.varying


def is_cold(results: Results) -> bool:
    """Whether every case's warm-up begins with the first step of a process."""
    return is_model(results) and (len(results.frame) == 1 or warmup.is_study(results))


def is_timing(results: Results) -> bool:
    others = is_memory(results) or is_precision(results) or is_compile(results)
    is_sweep_of_warmup = is_cold(results) and len(results.frame) > 1
    return is_model(results) and not others and not is_sweep_of_warmup


def methods(results: Results, factor: str) -> set[str]:
    return set(results.frame[factor]) if factor in results.frame else set()


Build = Callable[[Results, Spread], list[Table]]


def tables_of(found: list[Results], build: Build, *names: str) -> list[Table]:
    """The tables that `build` makes of these results, or those with these names, each titled with
    its file."""
    return [
        replace(
            table,
            name=f"{name}-{table.name}",
            title=f"{table.title} ({name})" if len(found) > 1 else table.title,
            commands=[],
        )
        for results in found
        for name in [stem(results.runs[0].path)]
        for table in build(results, Spread.INTERVAL)
        if not names or table.name in names
    ]


def cases_tables(found: list[Results]) -> list[Table]:
    return [narrowed(table, ASIDE) for table in tables_of(found, cases.build)]
