"""Where the time of steps goes: their parts, by precision and by exchange."""

from collections.abc import Sequence
from math import isnan

from .. import parts
from ..formatting import label
from ..results import Results
from . import buckets
from .exchanges import NAMES, name_of, same_setting
from .facts import Case, cases, distinct, largest, matching
from .selection import has_profile, is_model, of_experiment
from .sentences import milliseconds, percent, setting, settings, spanned

LAUNCH_BOUND = 0.9  # launch_share() of a launch-bound step
QUEUE = 1024  # launches that CUDA queues; for another the host waits until the GPU has begun one
LISTED = 4  # cases that are named in a sentence


def cost(case: Case) -> float:
    """A sort key: the model's size, then its context; NaN if nothing was measured."""
    parameters = case.number("layers") * case.number("d_model") ** 2
    return parameters * 1e6 + case.number("context") + 0 * case.seconds("step")


def headline(own: Sequence[Case], found: Sequence[Results]) -> str:
    """The largest timed case; that of every other precision; and the exchanges of gradients."""
    first = largest(own, cost)
    models = [results for results in found if is_model(results)]
    told = [where_a_step_goes(first)] if first else []
    for precision in distinct(cases(models), "precision"):
        if first and precision != first.get("precision"):
            others = [case for case in matching(cases(models), precision=precision)
                      if shares(case)]  # fmt: skip
            other = largest(others, cost)
            told.append(where_a_step_goes(other) if other else "")
    told = [line for line in told if line]
    beginning = f"Where a step's time goes: {'; '.join(told)}." if told else ""
    return " ".join(filter(None, (beginning, communication(found))))


def shares(case: Case) -> dict[str, float]:
    """The shares of the parts of a step, in descending order."""
    found = parts.of_row(case.results, case.row)
    whole = sum(found.values())
    if not found or isnan(whole) or whole <= 0:
        return {}
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return {name: value / whole for name, value in ordered if value > 5e-4 * whole}


def where_a_step_goes(case: Case) -> str:
    whole = sum(parts.of_row(case.results, case.row).values())
    told = ", ".join(f"{label(name)} {percent(share)}" for name, share in shares(case).items())
    where = setting(case.values)
    return f"{told} of the {milliseconds(whole)} of a step of {where}" if told else ""


def communication(found: Sequence[Results]) -> str:
    """The exposed wait by exchange, in the file with most exchanges."""
    files = [results for results in of_experiment(list(found), "ddp") if not has_profile(results)]
    timed = [
        [case for case in cases([results]) if not isnan(case.seconds("communication_exposed"))]
        for results in files
    ]
    own = max(timed, key=lambda one: len(distinct(one, "sync")), default=[])
    case = largest(own, cost) or (own[0] if own else None)
    if case is None:
        return ""
    best = [same_setting(own, case, sync=kind) for kind in distinct(own, "sync")]
    told = ", ".join(exposed_share(buckets.equal_to(own, one), one) for one in best if one)
    everything = cases([case.results])
    without = same_setting(everything, case, sync="none")
    base = f"; with {NAMES['none']} it takes {milliseconds(without.seconds('step'))}" if (
        without) else ""  # fmt: skip
    return f"Exposed communication of a step of {setting(case.values)}: {told}{base}."


def exposed_share(group: Sequence[Case], best: Case) -> str:
    share = percent(best.seconds("communication_exposed") / best.seconds("step"))
    name = f"{best.get('sync')} {buckets.listed(group, 'or')}" if len(group) > 1 else name_of(best)
    return f"{share} of {buckets.times(group)} with {name}"


def launches(own: Sequence[Case]) -> list[str]:
    """The eager steps in which the GPU computes hardly longer than the host launches."""
    eager = [case for case in matching(own, exec="eager") if not isnan(launch_share(case))]
    bound = [case for case in eager if is_launch_bound(case)]
    if not bound:
        return []
    common, told = settings(bound)
    if len(bound) <= LISTED:
        named = [
            (percent(launch_share(case)), name) for case, name in zip(bound, told, strict=True)
        ]
        taken = ", ".join(f"{share} ({name})" if name else share for share, name in named)
    else:
        taken = spanned([100 * launch_share(case) for case in bound], "%")
    where = f" ({common})" if common else ""
    return [
        f"{len(bound)} of {len(eager)} eager steps are launch-bound{where}: the host is launching "
        f"kernels during {taken} of the step, the optimizer aside. --exec compiled launches a step "
        "as one graph."
    ]


def launch_share(case: Case) -> float:
    """The host's time to launch a step over the step's without the optimizer, which has few
    launches."""
    optimizer = case.seconds("optimizer")
    others = case.seconds("step") - (0 if isnan(optimizer) else optimizer)
    return case.number("launch_s") / others if others > 0 else float("nan")


def is_launch_bound(case: Case) -> bool:
    """A host that waits, with a full queue, for a busy GPU does not count."""
    kernels = case.number("graph_kernels")
    queued = 1 - QUEUE / kernels if kernels > QUEUE else 0
    return launch_share(case) > max(LAUNCH_BOUND, 1.1 * queued)
