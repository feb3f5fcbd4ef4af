"""Kernels, scopes, phases and answers of handmade traces, and of published ones whose tables an
older paceline has stored."""

import shutil

import h5py
import numpy as np
import pandas as pd
import pytest

from analysis import profile_of_trace, tables
from analysis.profile_of_trace import KERNELS, PHASES, SCOPES
from analysis.result_file import decompressed, opened
from analysis.results import load
from analysis.tables import recorded
from reference_figures import REFERENCE
from synthetic import case, case_id
from synthetic_profile import write_profile, write_rows

NCCL = "ncclDevKernel_AllReduce(int)"
PRODUCT = {"flops": 600.0, "bytes": 60.0}
SAMPLES = {"forward": [[5.0, 7.0]], "backward": [[9.0, 9.0]], "step": [[20.0, 20.0]]}


class Handmade:
    """The activities and spans of one rank."""

    def __init__(self, steps=1):
        self.rank, self.source = 0, "cupti"
        self.spans, self.activities = [], []
        self.steps = [{"rank": 0, "step": n, "begin": 200.0 * n, "end": 200.0 * n + 100}
                      for n in range(steps)]  # fmt: skip

    def span(self, path, begin, step=0, elements=0, **work):
        row = {"rank": 0, "step": step, "path": path, "operation": int(bool(work)), "begin": begin,
               "end": begin + 1, "flops": 0.0, "bytes": 0.0, "elements": elements,
               "dtype": "float32" if elements else ""}  # fmt: skip
        self.spans.append(row | work)
        return len(self.spans) - 1

    def activity(self, name, span, begin, end, step=0, stream=7, kind="kernel"):
        self.activities.append({
            "rank": 0, "step": step, "kind": kind, "stream": stream, "name": name, "span": span,
            "begin": begin, "end": end, "correlation": 1, "bytes": 0, "blocks": 1,
        })  # fmt: skip


def add_step(made, step):
    """Two products, one of which overlaps with the softmax after it; an exchange that the last
    kernel hides in part."""
    begin = 200.0 * step

    def kernel(name, span, first, last, stream=7):
        made.activity(name, span, begin + first, begin + last, step, stream)

    made.span("forward", begin, step)
    made.span("forward/block 0", begin, step)
    product = made.span("forward/block 0/matmul", begin + 1, step, **PRODUCT)
    kernel("gemm(float*)", product, 10, 20)
    made.activity("cudaLaunchKernel", product, begin + 1, begin + 2, step, -1, "launch")
    made.activity("cudaGetDevice", -1, begin + 2, begin + 3, step, -1, "call")
    made.span("forward/block 1", begin + 2, step)
    product = made.span("forward/block 1/matmul", begin + 2, step, **PRODUCT)
    kernel("gemm(float*)", product, 22, 32)
    kernel("rows(int)", product, 32, 34)  # a product's second, shorter kernel
    softmax = made.span("forward/block 1/softmax", begin + 3, step, flops=8.0, bytes=40.0)
    kernel("rows(int)", softmax, 30, 36)
    backward = made.span("backward", begin + 4, step)
    sent = made.span("backward/all_reduce", begin + 5, step, elements=250, bytes=1000.0)
    kernel(NCCL, sent, 40, 60, stream=20)
    kernel("rows(int)", backward, 45, 50)


@pytest.fixture
def profiled(make_file):
    """profiled(made, ceilings): the Profile of a file with this trace."""

    def read(made, ceilings=None, phases=None, samples=SAMPLES):
        path = make_file([case({"size": "small", "device": "cuda"}, samples)])
        with h5py.File(path, "r+") as file:
            group = file["cases"][case_id(0)]
            write_profile(group, [made])
            if ceilings:
                write_rows(group.create_group("ceilings"), ceilings)
            if phases:
                write_rows(group.create_group("trace/phases"), phases)
        with opened(path) as file:
            return profile_of_trace.of(path, file, file["cases"][case_id(0)])

    return read


@pytest.fixture
def two_steps(profiled):
    made = Handmade(steps=2)
    for step in range(2):
        add_step(made, step)
    return profiled(made)


def rows_of(profile, group, *names):
    return list(profile.tables[group][list(names)].itertuples(index=False, name=None))


def test_kernels_count_to_what_launched_them_the_most_expensive_first(two_steps):
    """An operation's work is counted to the longest of its kernels."""
    nan = pytest.approx(np.nan, nan_ok=True)
    names = ("phase", "operation", "kernel", "calls", "total", "flops_per_s", "bytes_per_s")
    assert rows_of(two_steps, KERNELS, *names) == [
        ("backward", "all_reduce", "ncclDevKernel_AllReduce", 1, 20, nan, 50),
        ("forward", "matmul", "gemm", 2, 20, 60, 6),
        ("forward", "softmax", "rows", 1, 6, 8 / 6, 40 / 6),
        ("backward", "backward", "rows", 1, 5, nan, nan),
        ("forward", "matmul", "rows", 1, 2, nan, nan),
    ]
    kernels = two_steps.tables[KERNELS]
    assert kernels["share"].tolist() == [total / 53 for total in kernels["total"]]
    assert kernels["mean"].tolist() == [20, 10, 6, 5, 2]


def test_a_scope_includes_what_is_within_it_but_collectives(two_steps):
    """Both blocks are one row."""
    names = ("scope", "operation", "calls", "total", "flops", "bytes")
    assert rows_of(two_steps, SCOPES, *names) == [
        ("forward", 0, 1, 28, 1208, 160),
        ("forward/blocks", 0, 2, 28, 1208, 160),
        ("forward/blocks/matmul", 1, 2, 22, 1200, 120),
        ("forward/blocks/softmax", 1, 1, 6, 8, 40),
        ("backward", 0, 1, 5, 0, 0),
        ("backward/all_reduce", 1, 1, 20, 0, 1000),
    ]


def test_a_phase_leaves_out_its_collectives_and_the_step_does_not(two_steps):
    """In forward: 2 s between the products; 6 s in which two kernels run."""
    names = ("phase", "busy", "extent", "gaps", "kernels", "products")
    assert rows_of(two_steps, PHASES, *names) == [
        ("forward", 24, 26, 2, 28, 22),
        ("backward", 5, 5, 0, 5, 0),
        ("step", 44, 50, 6, 53, 22),
    ]


def test_a_kernel_counts_once_in_the_answers_whatever_launches_it(two_steps):
    """Collectives do not count: they wait for other ranks."""
    answers = two_steps.answers
    assert answers["forward_costliest_kernel"] == "gemm"
    assert answers["forward_costliest_calls"] == 2
    assert answers["forward_costliest_share"] == 20 / 28
    assert answers["forward_other_kernels"] == "rows 28.6%"
    assert answers["forward_backward_other_kernels"] == "rows 39.4%"  # 6 + 2 + 5 s of 33
    assert answers["forward_kernels_s"] == 24
    assert answers["forward_products_share"] == 22 / 28
    assert answers["step_products_share"] == 22 / 33
    assert answers["communication_overlap"] == 5 / 20


def test_scopes_are_in_the_order_in_which_they_are_entered(profiled):
    made = Handmade()
    made.activity("rows()", made.span("backward", 1.0), 10, 12)
    made.span("forward", 2.0)
    made.span("forward/block 1", 2.0)
    made.activity("rows()", made.span("forward/block 1/softmax", 3.0, flops=1.0), 13, 14)
    scopes = profiled(made).tables[SCOPES]["scope"].tolist()
    assert scopes == ["backward", "forward", "forward/blocks", "forward/blocks/softmax"]


def test_an_operation_within_another_is_counted_once_around_it(profiled):
    made = Handmade()
    made.span("forward", 1.0)
    made.span("forward/head", 2.0, flops=10.0)
    made.activity("rows()", made.span("forward/head/matmul", 3.0, flops=4.0), 10, 12)
    profile = profiled(made)
    assert rows_of(profile, SCOPES, "scope", "flops", "total") == [
        ("forward", 10, 2), ("forward/head", 10, 2), ("forward/head/matmul", 4, 2),
    ]  # fmt: skip


def test_a_captured_scope_is_launched_in_each_step(profiled):
    made = Handmade(steps=2)
    span = made.span("forward", -10.0, step=-1, flops=6.0)
    for step in range(2):
        made.activity("rows()", span, 200.0 * step + 50, 200.0 * step + 51, step)
    profile = profiled(made)
    assert rows_of(profile, SCOPES, "calls", "total", "flops") == [(1, 1, 6)]
    assert rows_of(profile, KERNELS, "calls", "total", "flops_per_s") == [(1, 1, 6)]


def ceiling(name, *rates):
    return [{"ceiling": name, "rank": 0, "rate": float(rate)} for rate in rates]


@pytest.mark.parametrize(
    ("gemm", "share"),
    [
        (ceiling("GEMM fp32", *[120] * 10), 0.5),
        (ceiling("GEMM fp32", *[110] * 5, *[130] * 5), None),  # the interval is too wide
        (ceiling("GEMM fp32", *[120] * 5), None),  # there is none
        ([], None),
    ],
)
def test_shares_are_rates_over_reliable_ceilings(profiled, gemm, share):
    made = Handmade()
    add_step(made, 0)
    copies = [row | {"rank": 1, "rate": rate} for row in ceiling("copy", *[1e9] * 9)
              for rate in (100.0,)] + ceiling("copy", *[400] * 9)  # fmt: skip
    profile = profiled(made, ceilings=[*gemm, *copies])
    kernels = profile.tables[KERNELS].set_index(["operation", "kernel"])
    matmul = kernels.loc[("matmul", "gemm")]
    assert matmul["flops_share"] == pytest.approx(share or np.nan, nan_ok=True)
    assert matmul["bytes_share"] == 6 / 100  # on the slowest rank


def test_flash_attention_has_the_ceiling_of_its_arithmetic(profiled):
    """bf16x3: three products at 2,700 FLOP/s, beside others at 400."""
    made = Handmade()
    made.span("forward", 1.0)
    made.activity("gemm()", made.span("forward/matmul", 1.0, flops=400.0), 10, 12)
    flash = made.span("forward/flash_attention", 2.0, flops=1800.0)
    made.activity("flash()", flash, 12, 15)
    rates = ceiling("GEMM fp32", *[400] * 9) + ceiling("GEMM bf16", *[2700] * 9)
    profile = profiled(made, ceilings=rates)
    assert dict(rows_of(profile, KERNELS, "kernel", "flops_share")) == {
        "gemm": 0.5, "flash": pytest.approx(600 / 900),
    }  # fmt: skip
    # 400 FLOPs take a second at the ceiling, 1,800 two; they took five.
    assert dict(rows_of(profile, SCOPES, "scope", "flops_share")) == {
        "forward": pytest.approx(3 / 5), "forward/matmul": 0.5,
        "forward/flash_attention": pytest.approx(600 / 900),
    }  # fmt: skip


@pytest.mark.parametrize("host", [6.0, np.nan])
def test_host_times_exist_for_the_phases_that_the_host_times(profiled, host):
    """Scopes that are no phases of a repetition, here backward, are not listed."""
    made = Handmade(steps=2)
    for step in range(2):
        add_step(made, step)
    phases = [{"rank": 0, "step": step, "phase": phase, "events": events, "host": by_host}
              for step in range(2)
              for phase, events, by_host in (("forward", 1.0 + step, int(host > 0)),
                                             ("step", np.nan, 1))]  # fmt: skip
    samples = {"forward": [[5.0, 7.0]], "step": [[20.0, 20.0]]}
    profile = profiled(made, phases=phases, samples=samples)
    nan = pytest.approx(np.nan, nan_ok=True)
    near = pytest.approx(host, nan_ok=True)
    names = ("phase", "host", "events")
    assert rows_of(profile, PHASES, *names) == [("forward", near, 1.5), ("step", 20, nan)]
    assert profile.answers["forward_host_s"] == near
    assert profile.answers["forward_events_s"] == 1.5


def test_a_step_without_work_on_the_device_has_no_rows(profiled):
    made = Handmade()
    made.activity("cudaGetDevice", made.span("all_reduce", 1.0, elements=1, bytes=4.0), 1, 2,
                  stream=-1, kind="call")  # fmt: skip
    profile = profiled(made)
    assert rows_of(profile, SCOPES, "scope", "calls", "total") == [("all_reduce", 1, 0)]
    assert (len(profile.tables[KERNELS]), profile.answers) == (0, {})


def without_tables(path, target):
    """A copy of a file without the tables and answers that are stored in it."""
    shutil.copy(decompressed(path), target)
    names = ["communication_overlap", "softmax_s", "softmax_flops", "attention_products_s",
             "attention_products_flops", "step_products_share", "forward_products_share",
             "forward_kernels_s", "forward_host_s", "forward_events_s"]  # fmt: skip
    with h5py.File(target, "r+") as file:
        del file["profile"]
        for one in file["cases"].values():
            del one["kernels"]
        for name in list(file["summary"]):
            if name in names or "_costliest_" in name or name.endswith("_other_kernels"):
                del file["summary"][name]
    return target


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        ("model-profile-h200.h5", 0.05),
        pytest.param("model-profile-sizes-h200.h5.xz", 1e-12, marks=pytest.mark.long),
    ],
)
def test_a_published_trace_has_the_tables_that_are_stored(tmp_path, name, noise):
    """Of 10 steps 3 are in the trace, of one step that one. Times differ by the noise of steps."""
    (stored,) = load([REFERENCE / name])
    (made,) = load([without_tables(REFERENCE / name, tmp_path / "made.h5")])
    keys = {"kernels": ["phase", "operation", "kernel"], "scopes": ["scope"], "phases": ["phase"]}
    for name, names in keys.items():
        a, b = (one.file_tables[f"profiled/{name}"].set_index(["case", *names]).sort_index()
                for one in (stored, made))  # fmt: skip
        b = b.reindex(a.index)[list(a)].drop(columns=["host", "events"], errors="ignore")
        for column in b:
            exact = column in ("calls", "operation", "flops", "bytes", "rank")
            near = pytest.approx(a[column].tolist(), rel=1e-12 if exact else noise,
                                 abs=0 if exact else noise * a[column].max(),
                                 nan_ok=True)  # fmt: skip
            assert b[column].tolist() == near, column
    shown = {f"profiled-{name}" for name in keys}
    assert shown < {table.name for table in tables.of(made)}
    for answer in ("forward_costliest_kernel", "forward_backward_costliest_kernel"):
        assert made.frame[answer].tolist() == stored.frame[answer].tolist()
    for answer in ("forward_kernels_s", "forward_products_share", "step_products_share",
                   "forward_costliest_share", "forward_costliest_calls"):  # fmt: skip
        near = pytest.approx(stored.frame[answer].tolist(), rel=noise)
        assert made.frame[answer].tolist() == near, answer


@pytest.mark.long
def test_the_published_overlap_is_that_of_the_trace(tmp_path):
    path = REFERENCE / "ddp-profile-h200.h5.xz"
    (stored,), (made,) = load([path]), load([without_tables(path, tmp_path / "made.h5")])
    overlaps, again = (one.frame["communication_overlap"].tolist() for one in (stored, made))
    assert overlaps == pytest.approx(again, abs=1e-6)


def test_new_cases_of_an_older_file_get_answers_and_old_ones_keep_theirs():
    frame = pd.DataFrame({"case": ["old", "new"], "softmax_s": [2.0, np.nan]})
    new = profile_of_trace.Profile(answers={"softmax_s": 3.0, "forward_costliest_kernel": "gemm"})
    found = profile_of_trace.with_answers(frame, [profile_of_trace.Profile(), new])
    assert found["softmax_s"].tolist() == [2, 3]
    assert found["forward_costliest_kernel"].dropna().tolist() == ["gemm"]


def test_the_costliest_kernels_of_rank_0_are_shown():
    def kernel(rank, name, share):
        return {"case": "a", "rank": rank, "phase": "forward", "operation": name, "kernel": name,
                "calls": 2.0, "total": share, "share": share}  # fmt: skip

    many = [kernel(0, "small", 0.02)] * 20
    rows = [kernel(0, "first", 0.5), *many, kernel(0, "less", 0.009), kernel(1, "of 1", 0.5)]
    table = recorded.shown("profiled/kernels", pd.DataFrame(rows))
    assert table["kernel"].tolist() == ["first", *["small"] * 11]


def test_large_regions_are_shown_as_a_tree():
    rows = [("forward", 0, 0.5), ("forward/blocks", 0, 0.4), ("forward/blocks/matmul", 1, 0.3),
            ("forward/head", 0, 0.009)]  # fmt: skip
    columns = ["case", "rank", "scope", "operation", "share"]
    table = pd.DataFrame([("a", 0, *row) for row in rows], columns=columns)
    assert recorded.shown("profiled/scopes", table)["scope"].tolist() == ["forward", "  blocks"]
    assert recorded.shown("profiled/scopes", table[2:]).empty
