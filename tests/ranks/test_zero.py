"""`zero` under mpirun: it trains as ddp does, with Adam's state sharded over the ranks."""

import h5py
import numpy as np
import pytest

from conftest import PROGRAM, command, run_line
from result_files import columns_of, rows

CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--force", "--output", "out.h5")
PARAMETERS = 2 * 128 * 64 + 2 * (4 * 64**2 + 3 * 64 * 192 + 2 * 64) + 64
ROWS = ("--vocab", 128, "--context", 16, "--batch-size", 2, *CPU)
SMALL = ("--size", "tiny", *ROWS)
WAITS = {("broadcast", "backward"), ("zero1", "forward")}
THREE_BLOCKS = ("--d-model", 64, "--d-ff", 192, "--layers", 3, "--heads", 4, *ROWS)


@pytest.mark.parametrize(
    "ranks", [1, 2, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 4))]
)
def test_every_sharding_trains_as_one_process_on_the_whole_batch(paceline, tmp_path, ranks):
    args = ("--verify", "--shard", "none,broadcast,zero1,zero2,fsdp", "--bucket-mb", "0.01,25")
    done = paceline("zero", *SMALL, *args, "--warmup", 0, "--steps", 1, ranks=ranks)
    assert done.code == 0, done.err
    table = rows(tmp_path / "out.h5")
    assert [row["status"] for row in table] == ["ok"] * 9
    assert [row["verify"] for row in table] == [10] * 9
    for row in table:
        for error in ("gradient_error", "sgd_error", "adamw_error"):
            assert row[f"verify_{error}"] <= 1
        assert (row["verify_adamw_distance"] > 0) == (ranks > 1)


def dumps(paceline, folder, ranks, *args):
    """{strategy: {part/name: values}} of the first step's gradients and the last weights."""
    buckets = ("--bucket-mb", 0.05)
    strategies = {
        shard: ("--shard", shard, *buckets) for shard in ("none", "broadcast", "zero1", "zero2")
    }
    for prefetch, reshard in (1, "yes"), (2, "no"):
        fsdp = ("--shard", "fsdp", "--prefetch", prefetch, "--reshard", reshard)
        strategies[f"fsdp {prefetch} {reshard}"] = fsdp
    found = {}
    for name, strategy in strategies.items():
        run = ("zero", *THREE_BLOCKS, "--warmup", 1, "--steps", 3)
        done = paceline(*run, *strategy, *args, "--dump", "dump.h5", ranks=ranks)
        assert done.code == 0, done.err
        with h5py.File(folder / "dump.h5") as f:
            found[name] = {
                f"{part}/{name}": values[:]
                for part in ("gradients", "weights")
                for name, values in f[part].items()
            }
    return found


@pytest.mark.parametrize(
    ("precision", "comm_dtype", "recompute"),
    [
        ("bf16", "bf16", "2"),
        pytest.param("fp32", "fp32", "none", marks=pytest.mark.long),
        pytest.param("bf16", "fp32", "block", marks=pytest.mark.long),
        pytest.param("fp16", "fp32", "swiglu", marks=pytest.mark.long),
    ],
)
def test_two_ranks_dump_the_same_bits_sharded_or_not(
    paceline, tmp_path, precision, comm_dtype, recompute
):
    args = ("--precision", precision, "--comm-dtype", comm_dtype, "--recompute", recompute)
    found = dumps(paceline, tmp_path, 2, *args)
    none = found.pop("none")
    assert len(none) == 2 * (9 * 3 + 3)
    for strategy, values in found.items():
        assert set(values) == set(none)
        for name, want in none.items():
            assert np.array_equal(values[name], want), (strategy, name)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The file of three ranks, which measure one step after the rehearsal."""
    folder = tmp_path_factory.mktemp("zero")
    args = ("--shard", "none,broadcast,zero1", "--warmup", 0, "--steps", 1, "--memory-timeline")
    done = run_line(folder, command(3, "zero", *SMALL, *args))
    assert done.code == 0, done.err
    return folder / "out.h5"


def test_what_is_kept_and_what_is_sent(measured):
    ranks = 3
    none, broadcast, zero1 = rows(measured)
    assert [row["shard"] for row in (none, broadcast, zero1)] == ["none", "broadcast", "zero1"]
    ring = (ranks - 1) / ranks
    padded = none["sent_bytes"] / (2 * ring)  # one all_reduce of all gradients
    assert zero1["sent_bytes"] == pytest.approx(2 * ring * padded, rel=0.02)
    assert broadcast["sent_bytes"] == pytest.approx(3 * ring * padded, rel=0.02)
    for row in (none, broadcast, zero1):
        assert row["sent_bytes"] == pytest.approx(row["predicted_sent_bytes"], rel=0.02)
    state = none["optimizer_state_bytes"]
    assert zero1["optimizer_state_bytes"] == pytest.approx(state / ranks, rel=0.01)
    assert state / ranks <= broadcast["optimizer_state_bytes"] * 1.01 < state
    saved = none["peak_bytes"] - zero1["peak_bytes"]
    assert saved == pytest.approx(state * ring, rel=0.01)
    arrays = []
    with h5py.File(measured) as f:
        for row in (none, broadcast, zero1):
            memory = f["cases"][row["case"]]["memory"]
            form = columns_of(memory["closed_form"])
            ratio = dict(zip(form["what"], form["ratio"], strict=True))
            assert ratio["optimizer state"] == pytest.approx(1, abs=0.02)
            assert ratio["peak"] == pytest.approx(1, abs=0.02)
            # Every rank's state; without sharding every rank has the whole state.
            last = memory["mark"].asstr()[:] == "after step"
            kept = memory["optimizer_state"][last & (memory["step"].asstr()[:] == "steady")]
            assert list(memory["rank"][last]) == [0, 0, 1, 1, 2, 2]
            assert kept.max() == row["optimizer_state_bytes"]
            copies = ranks if row["shard"] == "none" else 1
            assert kept.sum() == pytest.approx(copies * state, rel=0.01)
            if row["shard"] == "broadcast":  # m and v of every parameter, without padding
                assert len(set(kept)) > 1
                assert kept.sum() == 8 * PARAMETERS
            arrays.append(set(memory["parameters/array"].asstr()[:]))
        timeline = f["cases"][zero1["case"]]["timeline"]
        shown = (timeline["rank"][:] == 0) & (timeline["stream"][:] == b"communication")
        calls = timeline["scope"].asstr()[:][shown]
    # Half of a state with four bytes per element is not a state with two.
    assert arrays[0] - arrays[2] == {"adam m", "adam v"}
    kinds = [call.split(" ")[0] for call in calls]
    half = len(kinds) // 2
    # Parameters are gathered in forward's order, then gradients are scattered in backward's order.
    assert kinds == ["all_gather"] * half + ["reduce_scatter"] * half
    assert calls[0].startswith("all_gather token_embeddings.weight")


def test_waits_of_the_compute_stream_are_forward_s_or_backward_s(measured):
    """zero1 waits in forward for parameters, broadcast after the update; the longest of all ranks
    counts."""
    for row in rows(measured)[1:]:
        with h5py.File(measured) as f:
            timeline = columns_of(f["cases"][row["case"]]["timeline"])
        waited = {"forward": [0, 0, 0], "backward": [0, 0, 0]}
        forward_end = {}
        names = ("rank", "stream", "scope", "begin", "end")
        for rank, stream, scope, begin, end in zip(*(timeline[n] for n in names), strict=True):
            if (stream, scope) == ("compute", "forward"):
                forward_end[rank] = end
            if stream == "compute waits":
                waited["forward" if begin < forward_end[rank] else "backward"][rank] += end - begin
        for part, seconds in waited.items():
            assert row[f"waited_in_{part}_s"] == pytest.approx(max(seconds), abs=1e-12)
            assert (max(seconds) > 0) == ((row["shard"], part) in WAITS)


# Six blocks of 128 x (4 x 128 + 3 x 512) elements.
SIX_BLOCKS = ("--d-model", 128, "--d-ff", 512, "--layers", 6, "--heads", 4, "--vocab", 64)
BLOCK = 128 * (4 * 128 + 3 * 512)
FULL_PRECISION = 64 * 128 + 13 * 128  # the embedding and the norms
ALL = 6 * BLOCK + 64 * 128 + FULL_PRECISION


@pytest.mark.parametrize(
    ("ranks", "precision"),
    [(3, "bf16"), *(pytest.param(n, "fp32", marks=pytest.mark.long) for n in (2, 5))],
)
def test_what_zero2_and_fsdp_keep(paceline, tmp_path, ranks, precision):
    """Bytes by hand, and within 2% of the closed form."""
    done = paceline(
        *("zero", *SIX_BLOCKS, "--context", 4, "--batch-size", 1, *CPU, "--precision", precision),
        *("--shard", "zero1,zero2,fsdp", "--prefetch", "0,1", "--reshard", "yes,no"),
        *("--bucket-mb", 0, "--warmup", 0, "--steps", 2),
        ranks=ranks,
    )
    assert done.code == 0, done.err
    zero1, zero2, *fsdp = rows(tmp_path / "out.h5")
    assert zero2["loss"] == zero1["loss"]
    assert zero2["sent_bytes"] == zero1["sent_bytes"]
    for row in (zero1, zero2, *fsdp):
        assert row["sent_bytes"] == pytest.approx(row["predicted_sent_bytes"], rel=0.02)
    # A bucket is a layer; four of the largest fit into the window.
    gradients = ALL / ranks + 4 * 2 * 128 * 512 + FULL_PRECISION
    saved = 4 * (ALL - gradients)
    assert zero1["peak_bytes"] - zero2["peak_bytes"] == pytest.approx(saved, rel=0.03)
    assert zero2["peak_bytes"] == pytest.approx(zero2["predicted_peak_bytes"], rel=0.02)

    products = 2 if precision == "bf16" else 4  # bytes of their operands
    assert [(row["prefetch"], row["reshard"]) for row in fsdp] == [
        (0, "yes"), (0, "no"), (1, "yes"), (1, "no"),
    ]  # fmt: skip
    for row in fsdp:
        assert row["loss"] == pytest.approx(zero1["loss"], rel=1e-6)
        assert row["peak_bytes"] == pytest.approx(row["predicted_peak_bytes"], rel=0.02)
        blocks = row["prefetch"] + 1 if row["reshard"] == "yes" else 7  # and the head
        want = {
            "parameter": 4 * ALL / ranks,
            "gathered": products * blocks * BLOCK + 4 * FULL_PRECISION,
            "gradient": 4 * (ALL / ranks + 2 * BLOCK + FULL_PRECISION),
            "optimizer_state": 8 * ALL / ranks,
        }
        with h5py.File(tmp_path / "out.h5") as f:
            marks = f["cases"][row["case"]]["memory"]
            steady = marks["step"].asstr()[:] == "steady"
            for kind, bytes_of_kind in want.items():
                measured = marks[kind][steady & (marks["mark"].asstr()[:] == "before optimizer")]
                assert len(measured) == ranks
                assert measured == pytest.approx(bytes_of_kind, rel=0.02), kind


def test_gradients_that_are_not_kept_have_a_window(paceline, tmp_path):
    """Those that an update in backward takes, or that are exchanged in another dtype."""
    done = paceline(
        *("zero", *SIX_BLOCKS, "--context", 4, "--batch-size", 1, *CPU, "--shard", "zero2,fsdp"),
        *("--optimizer", "serial,in-backward", "--comm-dtype", "fp32,bf16", "--bucket-mb", 0),
        *("--warmup", 0, "--steps", 2),
        ranks=2,
    )
    assert done.code == 0, done.err
    factors = ("shard", "optimizer", "comm_dtype")
    found = {tuple(row[name] for name in factors): row for row in rows(tmp_path / "out.h5")}
    for row in found.values():
        assert row["peak_bytes"] == pytest.approx(row["predicted_peak_bytes"], rel=0.02)
    for shard in ("zero2", "fsdp"):
        window = (4 * 2 * 128 * 512 if shard == "zero2" else 2 * BLOCK) + FULL_PRECISION
        serial, in_backward = (found[shard, how, "fp32"] for how in ("serial", "in-backward"))
        assert in_backward["loss"] == serial["loss"]
        saved = 4 * (ALL - window) / 2
        assert serial["peak_bytes"] - in_backward["peak_bytes"] == pytest.approx(saved, rel=0.03)
        with h5py.File(tmp_path / "out.h5") as f:
            marks = f["cases"][found[shard, "serial", "bf16"]["case"]]["memory"]
            want = 2 * ALL / 2 + (2 + 4) * window
            assert marks["gradient"][:].max() == pytest.approx(want, rel=0.02)


def test_when_fsdp_gathers_and_scatters(paceline, tmp_path):
    """Units in the order of use, and each once more for backward unless it is still in a slot."""
    done = paceline(
        *("zero", *THREE_BLOCKS, "--shard", "fsdp", "--prefetch", "0,1", "--reshard", "yes,no"),
        *("--recompute", "none,2", "--warmup", 1, "--steps", 1),
        ranks=2,
    )
    assert done.code == 0, done.err
    stays = ["embedding", "norms"]
    forward = ["block 0", "block 1", "block 2", "head"]
    for row in rows(tmp_path / "out.h5"):
        with h5py.File(tmp_path / "out.h5") as f:
            timeline = f["cases"][row["case"]]["timeline"]
            of_rank_0 = timeline["rank"][:] == 0
            on_stream = {
                stream: [
                    scope.split(" ", 1)
                    for scope in timeline["scope"].asstr()[:][
                        of_rank_0 & (timeline["stream"].asstr()[:] == stream)
                    ]
                ]
                for stream in ("gathers", "communication")
            }
        calls = on_stream["gathers"] + on_stream["communication"]
        assert {op for op, _ in on_stream["gathers"]} == {"all_gather"}
        assert {op for op, _ in on_stream["communication"]} == {"reduce_scatter"}
        gathered = [what for _, what in on_stream["gathers"]]
        scattered = [what for _, what in on_stream["communication"]]
        assert len(calls) == row["communication_calls"]
        assert scattered == ["head", "block 2", "block 1", "block 0", "norms", "embedding"]
        again = ["block 2", "block 1", "block 0"]
        if row["recompute"] == "2":  # block 2 alone, then blocks 0 and 1
            again = ["block 2", "block 0", "block 1", "block 0"]
        if row["reshard"] == "no":
            again = []
        elif row["prefetch"] == 1:  # the last block, or two, are still in the slots
            again = again[1:-1] if row["recompute"] == "2" else again[1:]
        assert gathered == [*stays, *forward, *again], row["case"]
        if row["recompute"] == "none" or row["reshard"] == "no":
            assert row["sent_bytes"] == pytest.approx(row["predicted_sent_bytes"], rel=0.02)
        else:
            assert np.isnan(row["predicted_sent_bytes"])


def test_shards_are_of_one_file(paceline, tmp_path):
    """A file of weights that differs between hosts is refused."""
    shape = ("--size", "tiny", "--vocab", 128, "--context", 16)
    for seed in (3, 4):
        model = ("model", *shape, *CPU, "--steps", 1, "--warmup", 0, "--lr", 0, "--seed", seed)
        assert paceline(*model, "--dump", f"{seed}.h5").code == 0
    zero = ("zero", *shape, *CPU, "--shard", "fsdp", "--steps", 1, "--warmup", 0)
    line = (PROGRAM, *zero, "--load-weights", "/proc/self/fd/9")
    for other, code in ((3, 0), (4, 2)):
        words = ["mpirun", "--oversubscribe"]
        for seed in (3, other):  # one path that names a different file on each rank
            words += [":", "-np", "1", "sh", "-c", 'exec 9< "$0"; exec "$@"', f"{seed}.h5", *line]
        del words[2]
        done = run_line(tmp_path, words)
        assert done.code == code, done.err
        assert ("--load-weights: ranks read different values" in done.err) == (code == 2)


LIMITS = (9.6, 11.6, 12.4, 40)
MORE_LIMITS = (*LIMITS, 10.4, 11.2, 12, 12.8, 13.6, 16)


@pytest.mark.parametrize(
    ("visits", "limits"),
    [
        (("--dump", "dump.h5"), LIMITS),
        pytest.param(("--dump", "dump.h5"), MORE_LIMITS, marks=pytest.mark.long),
        pytest.param(("--verify", 1), MORE_LIMITS, marks=pytest.mark.long),
    ],
)
def test_what_is_gathered_to_be_seen_is_counted_before_the_first_step(
    paceline, tmp_path, visits, limits
):
    """With any limit, the case either fits in memory or is recorded as a row."""
    shape = ("--d-model", 64, "--d-ff", 64, "--layers", 2, "--heads", 4, "--vocab", 4000)
    seen = set()
    for limit in limits:
        done = paceline(
            *("zero", *shape, "--context", 40, "--batch-size", 1, *CPU, "--shard", "fsdp"),
            *("--warmup", 0, "--steps", 1, "--memory-limit", f"{limit}MB", *visits),
            ranks=2,
        )
        assert done.code == 0, (limit, done.err)
        seen |= {row["status"] for row in rows(tmp_path / "out.h5")}
    assert seen == {"ok", "oom"}
