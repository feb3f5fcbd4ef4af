"""Questions on several ranks: collectives, the exchange of gradients, buckets, scaling."""

import re

from .. import scaling_cases
from ..formatting import figure, label, more, percent
from ..tables import recorded
from ..tables import scaling as scaling_table
from ..tables.spread import Spread
from ..tables.table import grid
from .answer import MOST_BARS, Answer, Bar, Drawing, as_fast, drawn, phases, time_bar
from .selection import Case, Pool, beside, leading, setting

PHASES = ("forward", "backward", "communication_exposed", "optimizer", "step")
SYNCS = ("none", "naive", "flat", "overlap", "bucketed")
WORDS = {"none": "no exchange (the limit)", "naive": "one by one"}
PROBLEMS = {
    "naive": "naive_ddp_benchmarking",
    "flat": "minimal_ddp_flat_benchmarking",
    "overlap": "ddp_overlap_individual_parameters_benchmarking",
}


def rate(case: Case) -> float:
    """Bus bandwidth in GB/s."""
    return case.number("busbw_bytes_per_s") / 1e9


def size(case: Case) -> str:
    return f"{case.number('bytes') / 1e6:,.10g}"


def collectives(pool: Pool, spread: Spread) -> Answer | None:
    ranked = [c for c in pool.of("collectives", "single-node", op="all_reduce") if rate(c) > 0]
    device = [c for c in ranked if c.get("backend") == "nccl"] or ranked
    lead = leading(device, "single-node")
    if lead is None:
        return None
    own = beside(ranked, lead, "backend", "ranks", "bytes")
    return Answer(
        f"{figure(rate(lead), 3)} GB/s",
        f"An all-reduce of {size(lead)} MB over {lead.get('ranks')} ranks takes {lead.ms('time')} "
        f"with {lead.get('backend')}.",
        [Bar(f"{size(c)} MB", rate(c), f"{figure(rate(c), 3)} GB/s")
         for c in beside(device, lead, "bytes")[-MOST_BARS:]],
        lead,
        "bus bandwidth of all-reduce",
        [("distributed_communication_single_node", f"{fit.backend}, {fit.ranks} ranks: latency "
          f"{figure(fit.latency_s * 1e6, 3)} µs and {figure(fit.bandwidth_bytes_per_s / 1e9, 3)} "
          "GB/s fit its times best.")
         for fit in lead.table("fit").itertuples()
         if fit.op == "all_reduce" and str(fit.ranks) == lead.get("ranks")],
        [grid("collectives", "All-reduce by backend, ranks and size",
              ["backend", "ranks", "MB", "time (ms)", "bus bandwidth (GB/s)"],
              [[c.get("backend"), c.get("ranks"), size(c), *phases(c, ["time"], spread),
                figure(rate(c), 3)] for c in own], f"{spread.words}.")],
        drawn(own, "collectives"),
    )  # fmt: skip


def exposed(case: Case) -> str:
    return percent(case.seconds("communication_exposed") / case.seconds("step"))


def exchange(pool: Pool, spread: Spread) -> Answer | None:
    ranked = [case for case in pool.of("ddp", "course", sync=SYNCS) if case.seconds("step") > 0]
    naive = leading([case for case in ranked if case.get("sync") == "naive"], "course")
    if naive is None:
        return None
    every = beside(ranked, naive, "sync", "bucket_mb", "comm_dtype", "registration")
    by = {sync: min(own, key=lambda c: c.seconds("step")) for sync in SYNCS
          if (own := [c for c in every if c.get("sync") == sync])}  # fmt: skip
    fast = as_fast([c for c in every if c.get("sync") != "none"])
    best, ties = fast[0], list(dict.fromkeys(c.get("sync") for c in fast))
    equal = f", equal within intervals to {' and '.join(ties[1:])}" if len(ties) > 1 else ""
    less = f", {more(best.seconds('step') / naive.seconds('step'))} than one by one"
    without = f"; no exchange takes {by['none'].ms()}" if "none" in by else ""
    profiled = [c for c in pool.of("ddp") if "trace/ranks" in c.results.case_tables[c.row]]
    return Answer(
        best.get("sync"),
        f"A step of {best.get('size')} on {best.get('ranks')} ranks takes {best.ms()} with "
        f"{best.get('sync')}{less if best.get('sync') != 'naive' else ''}{equal}.",
        [time_bar(WORDS.get(sync, sync), case) for sync, case in by.items()],
        best,
        "is the fastest exchange",
        [(problem, f"With {sync} a step takes {by[sync].ms()}{without}. It waits for communication "
          f"during {by[sync].ms('communication_exposed')}, {exposed(by[sync])} of it.")
         for sync, problem in PROBLEMS.items() if sync in by],
        [grid("exchange", "A step with each exchange of gradients",
              ["exchange", "bucket (MB)", *(f"{label(name)} (ms)" for name in PHASES), "exposed"],
              [[c.get("sync"), c.get("bucket_mb"), *phases(c, PHASES, spread), exposed(c)]
               for c in by.values()],
              f"Of bucketed the fastest size. {spread.words}. {setting(every)}.")],
        drawn(every, "steps") + drawn(profiled, "streams"),
    )  # fmt: skip


def buckets(pool: Pool, spread: Spread) -> Answer | None:
    ranked = [c for c in pool.of("ddp", "course", sync="bucketed") if c.seconds("step") > 0]
    lead = leading([c for c in ranked if len(beside(ranked, c, "bucket_mb")) > 1], "course")
    if lead is None:
        return None
    own = beside(ranked, lead, "bucket_mb")
    fast = as_fast(own)
    best = fast[0]
    listed = " and ".join(sorted((c.get("bucket_mb") for c in fast), key=float))
    equal = f"; sizes of {listed} MB are equal within intervals" if len(fast) > 1 else ""
    slowest = max(c.seconds("step") for c in own)
    told = [("a", f"The slowest size takes {more(slowest / best.seconds('step'))} than the "
             "fastest.")]  # fmt: skip
    table = lead.table("predict")
    if len(table):
        least = table.loc[table["predicted_overhead_s"].idxmin()]
        told.append(("b", "With n buckets of s bytes in all, latency o and bandwidth w, n o + "
                     "s / (n w) is left after backward. By the fit of all-reduce that is least at "
                     f"{least['predicted_best_bucket_mb']:.0f} MB; of the sizes measured at "
                     f"{least['bucket_mb']:g} MB."))  # fmt: skip
    return Answer(
        f"{best.get('bucket_mb')} MB",
        f"Buckets of {best.get('bucket_mb')} MB leave {best.ms('communication_exposed')} of "
        f"communication after backward{equal}.",
        [time_bar(f"{c.get('bucket_mb')} MB", c) for c in own[:MOST_BARS]],
        best,
        "is the fastest bucket size",
        [(f"ddp_bucketed_benchmarking ({part})", one) for part, one in told],
        [grid("buckets", "A step by bucket size",
              ["bucket (MB)", "collectives", "exposed (ms)", "step (ms)"],
              [[c.get("bucket_mb"), c.get("communication_calls"),
                *phases(c, ("communication_exposed", "step"), spread)] for c in own],
              f"{spread.words}. {setting(own)}."),
         *(one for one in recorded.build(lead.results, spread) if one.name == "predict")],
        drawn(own, "overhead", "steps"),
    )  # fmt: skip


def of(one: scaling_cases.Scaling) -> str:
    return re.sub(r"bucket MB ([\d.,]+\d)", r"\1 MB", one.exchange)


def scaling(pool: Pool, spread: Spread) -> Answer | None:
    """Weak scaling: the file of one rank and those of several, with the same batch a rank."""
    files = {id(c.results): c.results for c in pool.cases if c.results.experiment in ("ddp", "zero")
             and "trace/ranks" not in c.results.case_tables[c.row]}  # fmt: skip
    found = [(group, one) for group in scaling_cases.together(list(files.values()))
             for one in scaling_cases.of(group) if "none" not in one.exchange]  # fmt: skip
    if not found:
        return None
    most = max(int(group.frame["ranks"][one.rows[-1]]) for group, one in found)
    own = sorted(
        ((group.medians[one.rows[0]] / group.medians[one.rows[-1]], group, one)
         for group, one in found if group.frame["ranks"][one.rows[-1]] == most),
        key=lambda item: -item[0],
    )  # fmt: skip
    ratio, group, best = own[0]
    alike = [item for item in own if item[2].setting == best.setting]
    row = group.records[best.rows[-1]]
    lead = next(c for c in pool.cases if c.get("case") == row["case"]
                and c.run.name.startswith(str(row.get("file", ""))))  # fmt: skip
    rows = sorted({row for _, other, one in own if other is group for row in one.rows})
    return Answer(
        percent(ratio),
        f"{most} ranks keep {percent(ratio)} of one rank's rate with {of(best)} "
        f"({best.setting}), {percent(alike[-1][0])} with {of(alike[-1][2])}.",
        [Bar(of(one), value, percent(value))
         for value, _, one in alike[:MOST_BARS]],
        lead,
        f"efficiency on {most} ranks",
        tables=scaling_table.build(group.only(rows), spread),
        drawings=[Drawing(group.only(rows), "scaling")],
    )  # fmt: skip
