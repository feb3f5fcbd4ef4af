"""What the kernels of profiled cases answer: columns of /summary as tables of the whole file, on
rank 0. Older files have these tables themselves."""

import pandas as pd

# The columns of each table, and those of /summary that they are.
COLUMNS = {
    "profile/forward": {
        "host": "forward_host_s",
        "events": "forward_events_s",
        "busy": "forward_kernels_s",
    },
    "profile/products": {"forward": "forward_products_share", "step": "step_products_share"},
    "profile/softmax": {
        "softmax": "softmax_s",
        "products": "attention_products_s",
        "softmax_flops": "softmax_flops",
        "products_flops": "attention_products_flops",
    },
}
COSTLIEST = {
    phases: {
        "kernel": f"{phases}_costliest_kernel",
        "calls": f"{phases}_costliest_calls",
        "share": f"{phases}_costliest_share",
        "other_kernels": f"{phases}_other_kernels",
    }
    for phases in ("forward", "forward_backward")
}


def of(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    if "profile_source" not in frame:
        return {}
    profiled = frame[frame["profile_source"].fillna("") != ""]
    tables = {group: chosen(profiled, names) for group, names in COLUMNS.items()}
    costliest = [
        chosen(profiled, names).assign(phases=phases) for phases, names in COSTLIEST.items()
    ]
    tables["profile/costliest"] = pd.concat(costliest).sort_index(kind="stable")
    softmax = tables["profile/softmax"]
    if len(softmax):
        softmax["time_ratio"] = softmax["softmax"] / softmax["products"]
        softmax["flops_ratio"] = softmax["softmax_flops"] / softmax["products_flops"]
    return {group: table for group, table in tables.items() if len(table)}


def chosen(frame: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """These columns by their new names, without the rows that lack one."""
    if not set(names.values()) <= set(frame):
        return pd.DataFrame()
    columns = {"case": frame["case"]} | {new: frame[name] for new, name in names.items()}
    return pd.DataFrame(columns).dropna(how="all", subset=list(names))
