"""The fits of `rates`: steps and links whose rates are known."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis import check_plan, rates
from analysis.rates import KINDS, Program, Step
from conftest import PROGRAM

TRUE = {
    "projection_flops": 5e13, "feed_forward_flops": 5e13, "head_flops": 5e13,
    "attention_flops": 2e13, "parameter_bytes": 1e12, "activation_bytes": 2e12, "blocks": 2e4,
    "heads": np.inf,
}  # fmt: skip
SIZES = {
    "small": (768, 3072, 12, 12), "medium": (1024, 4096, 24, 16), "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
}  # fmt: skip
NO_LIMITS = np.zeros(len(KINDS))


def fitted(*rows, least=NO_LIMITS):
    """The rates by kind of rows of (work by kind, seconds)."""
    work = np.array([[own.get(kind, 0) for kind in KINDS] for own, _ in rows], float)
    unit = rates.fitted(work, np.array([seconds for _, seconds in rows], float), least)
    with np.errstate(divide="ignore"):
        return dict(zip(KINDS, 1 / unit, strict=True))


def seconds(work):
    return sum(work[kind] / rate for kind, rate in TRUE.items())


@pytest.fixture(scope="module")
def program():
    return Program(PROGRAM)


@pytest.fixture
def step(program):
    def make(size="small", context=128, factor=1.0, device="NVIDIA A1", **factors) -> Step:
        """A step whose time is that of TRUE, times the factor."""
        dims = dict(zip(("d_model", "d_ff", "layers", "heads"), SIZES[size], strict=True))
        row = {"context": context, "attention": "naive", "ranks": 1, **dims, **factors}
        made = Step(Path("f.h5"), device, f"{size}-{context}", rates.options_of("ddp", row), {}, {},
                    program)  # fmt: skip
        made.measured = {"step_s": factor * seconds(made.plan), "peak_bytes": 1, "sent_bytes": 1}
        return made

    return make


@pytest.fixture
def steps(step):
    return [step(size, context) for size in SIZES for context in (128, 512, 1024)]


def test_the_rates_of_exact_times_are_found(steps):
    (found,) = rates.step_rates(steps)
    assert found["device"] == "NVIDIA A1" and found["group"] == "cuda fp32 naive eager"
    for kind, rate in TRUE.items():
        want = None if np.isinf(rate) else pytest.approx(rate, rel=1e-6)
        assert found["rates"][f"{kind}_per_s"] == want
    assert len(found["sizes"]) == 4
    for points in found["sizes"].values():
        assert [point["tokens"] for point in points] == [512, 2048, 4096]
        assert [point["ratio"] for point in points] == pytest.approx([1] * 3)


@pytest.mark.parametrize(
    ("contexts", "batches", "found"),
    [((128, 512, 1024), (1, 4), True), ((128, 256), (1, 4, 16), False),
     ((128, 512, 1024), (4,), False)],
)  # fmt: skip
def test_heads_need_contexts_and_numbers_of_sequences(step, contexts, batches, found):
    rows = []
    for size in SIZES:
        for context in contexts:
            for batch in batches:
                work = step(size, context, batch_size=batch).plan
                rows.append((work, seconds(work) + work["heads"] / 1e6))
    rate = fitted(*rows)["heads"]
    assert rate == (pytest.approx(1e6, rel=1e-5) if found else np.inf)


def test_shapes_of_products_that_are_timed_alone_have_their_rates():
    rate = fitted(
        ({"projection_flops": 100}, 2), ({"feed_forward_flops": 300}, 3), ({"head_flops": 100}, 0.5)
    )
    assert [rate[kind] for kind in rates.WEIGHTS] == pytest.approx([50, 100, 200])


def test_one_row_has_the_rate_of_products():
    """Each single rate fits one row but for rounding, which must not choose among them."""
    for time in (2.0, 0.3, 0.07, 1.1, 0.013, 5.7):
        work = {"feed_forward_flops": 97, "parameter_bytes": 11, "activation_bytes": 3}
        rate = fitted((work, time))
        assert rate["feed_forward_flops"] == pytest.approx(97 / time)
        assert np.isinf(rate["parameter_bytes"])


def test_no_rate_is_below_zero():
    """Times that fall with the activations."""
    rate = fitted(
        ({"feed_forward_flops": 100, "activation_bytes": 10}, 1),
        ({"feed_forward_flops": 100, "activation_bytes": 20}, 0.9),
    )
    assert np.isinf(rate["activation_bytes"])
    assert rate["feed_forward_flops"] == pytest.approx(100 / 0.95, abs=1)


def test_few_rows_have_few_rates():
    rows = [({"feed_forward_flops": 100 * n, "blocks": 1}, 0.5 + n / 2) for n in (1, 2, 3, 4)]
    assert np.isinf(fitted(*rows[:3])["blocks"])
    rate = fitted(*rows)
    assert (rate["blocks"], rate["feed_forward_flops"]) == pytest.approx((2, 200))


def test_work_that_is_timed_alone_has_its_rate():
    rate = fitted(
        ({"feed_forward_flops": 100, "attention_flops": 10, "blocks": 1}, 3),
        ({"feed_forward_flops": 100}, 2), ({"attention_flops": 10}, 1),
    )  # fmt: skip
    assert (rate["feed_forward_flops"], rate["attention_flops"]) == pytest.approx((50, 10))
    assert np.isinf(rate["blocks"])


def test_no_rate_exceeds_its_limit():
    """The best fit without a limit explains the times by the blocks only."""
    rows = [({"feed_forward_flops": flops, "blocks": 10 * n}, n)
            for n, flops in enumerate((10, 40, 20, 30), 1)]  # fmt: skip
    rate = fitted(*rows, least=np.array([1 / 80] * 3 + [0] * 5))
    assert rate["feed_forward_flops"] == pytest.approx(80)
    assert 10 < rate["blocks"] < 20


def test_rates_are_at_most_the_data_sheet_s(step):
    """One number of tokens cannot separate products from traffic."""
    (found,) = rates.step_rates(step(size, factor=0.01, device="NVIDIA H200") for size in SIZES)
    assert found["rates"]["feed_forward_flops_per_s"] == pytest.approx(66.9e12)
    assert found["rates"]["activation_bytes_per_s"] == pytest.approx(4.8e12)


def test_one_profiled_step_separates_products_from_traffic(step):
    one = step("small", 512)
    one.kernels = {kind: one.plan[kind] / TRUE[kind] for kind in KINDS[:6]}
    (found,) = rates.step_rates([one])
    for kind in ("feed_forward_flops", "attention_flops", "parameter_bytes", "activation_bytes"):
        assert found["rates"][f"{kind}_per_s"] == pytest.approx(TRUE[kind], rel=0.05)


def test_the_kinds_of_kernels():
    scopes = [
        ("forward/blocks/attention/matmul", 1, 0, 1.0, 5.0),
        ("forward/blocks/attention/scaled dot product attention/x", 1, 0, 2.0, 5.0),
        ("backward/blocks/ffn/matmul", 1, 0, 4.0, 5.0),
        ("backward/blocks/ffn/swiglu", 1, 0, 8.0, 0.0),
        ("forward/head/matmul", 1, 0, 16.0, 5.0),
        ("optimizer/adamw", 1, 0, 32.0, 0.0),
        ("forward/blocks/ffn", 0, 0, 64.0, 5.0),  # a scope, no operation
        ("forward/blocks/ffn/matmul", 1, 1, 64.0, 5.0),  # another rank's
    ]
    names = ["scope", "operation", "rank", "total", "flops"]
    assert rates.kernel_seconds(pd.DataFrame(scopes, columns=names)) == {
        "projection_flops": 1, "attention_flops": 2, "feed_forward_flops": 4,
        "activation_bytes": 8, "head_flops": 16, "parameter_bytes": 32,
    }  # fmt: skip


def test_steps_with_an_exchange_do_not_make_rates(step, steps):
    alone = rates.step_rates(steps)
    more = [
        step(factor=9, ranks=2, sync="flat"),
        step(factor=9, mode="forward"),
        step(factor=9, optimizer="in-backward"),
    ]
    assert rates.step_rates([*steps, *more]) == alone
    assert rates.step_rates([*steps, step(factor=9, ranks=2, sync="none")]) != alone


def test_contention_is_the_cost_of_hidden_collectives(step, steps):
    links = [link(ranks=2)]
    assert rates.fit(steps, links)["contention"] == {}
    document = rates.fit(steps, links)
    busy = step("large", 1024, ranks=2, sync="bucketed")
    told = rates.predicted(busy, document)
    hidden = told["exchange_s"] - told["exposed_s"]
    busy.measured["step_s"] = told["step_s"] + 0.25 * hidden
    flat = step("large", ranks=2, sync="flat", factor=9)  # nothing overlaps
    found = rates.fit([*steps, busy, flat], links)
    assert found["contention"] == {"cuda": pytest.approx(0.25)}
    assert rates.predicted(busy, found)["step_s"] == pytest.approx(busy.measured["step_s"])


def link(**other):
    return {"device": "NVIDIA H200", "backend": "nccl", "op": "all_reduce", "dtype": "float32",
            "redop": "sum", "cadence": "back-to-back", "cache": "warm", "in_place": "yes",
            "registration": "symmetric", "ranks": 2, "latency_s": 1e-5,
            "bandwidth_bytes_per_s": 1e11} | other  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
def test_the_link_is_the_one_most_like_training_s_whatever_the_order(reverse):
    others = [
        link(**{name: value, "latency_s": 1.0})
        for name, value in [("redop", "prod"), ("cadence", "barrier"), ("cache", "cold"),
                            ("in_place", "no"), ("registration", "none")]
    ]  # fmt: skip
    more = [link(ranks=4), link(op="all_gather"), link(backend="mpi"), link(dtype="bfloat16")]
    rows = [*others, link(), *more]
    found = rates.preferred(pd.DataFrame(rows[::-1] if reverse else rows))
    assert len(found) == 5
    assert {row["latency_s"] for row in found} == {1e-5}
    assert [row["dtype"] for row in found].index("bfloat16") == 0  # then by name


def test_cases_of_one_plan_are_equal(step):
    same = step("small"), step("small")
    assert same[0].key == same[1].key
    assert step("small", 256).key != same[0].key
    assert step("small", device="cpu").key != same[0].key
    zero = {"context": 128, "ranks": 2, "shard": "none", "bucket_mb": 25.0}
    ddp = {"context": 128.0, "ranks": 2, "sync": "bucketed", "bucket_mb": 25.0}
    assert rates.options_of("zero", zero) == rates.options_of("ddp", ddp)
    assert "--comm-dtype" not in rates.options_of("ddp", ddp | {"comm_dtype": np.nan})


def test_a_case_is_predicted_from_the_others(monkeypatch, program, step, steps):
    def times(own):
        monkeypatch.setattr(check_plan, "read", lambda *_: (own, []))
        return check_plan.step_times(own, [], program)

    assert times(steps) == pytest.approx([s.measured["step_s"] for s in steps])
    assert np.isnan(times([step()])).all()
    assert np.isnan(times([step(), step(factor=2)])).all()  # a series of the same plan
    assert not np.isnan(times([step(), step(context=256)])).any()
