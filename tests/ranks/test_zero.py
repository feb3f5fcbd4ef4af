"""`zero` under mpirun: it trains as ddp does, with a part of Adam's state on every rank."""

import h5py
import numpy as np
import pytest

from result_files import rows

CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--force", "--output", "out.h5")
PARAMETERS = 2 * 128 * 64 + 2 * (4 * 64**2 + 3 * 64 * 192 + 2 * 64) + 64
SMALL = ("--size", "tiny", "--vocab", 128, "--context", 16, "--batch-size", 2, *CPU)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_sharding_trains_as_one_process_on_the_whole_batch(paceline, tmp_path, ranks):
    args = ("--verify", "--shard", "none,broadcast,zero1", "--bucket-mb", "0.01,25")
    done = paceline("zero", *SMALL, *args, "--warmup", 0, "--steps", 1, ranks=ranks)
    assert done.code == 0, done.err
    table = rows(tmp_path / "out.h5")
    assert [row["status"] for row in table] == ["ok"] * 6
    assert [row["verify"] for row in table] == [10] * 6
    for row in table:
        for error in ("gradient_error", "sgd_error", "adamw_error"):
            assert row[f"verify_{error}"] <= 1
        assert (row["verify_adamw_distance"] > 0) == (ranks > 1)


def dumps(paceline, folder, ranks, *args):
    """{shard: (gradients of the first step, last weights)} of each strategy."""
    found = {}
    for shard in ("none", "broadcast", "zero1"):
        run = ("zero", *SMALL, "--shard", shard, "--bucket-mb", 0.05, "--warmup", 1, "--steps", 3)
        done = paceline(*run, *args, "--dump", "dump.h5", ranks=ranks)
        assert done.code == 0, done.err
        with h5py.File(folder / "dump.h5") as f:
            found[shard] = {
                f"{part}/{name}": values[:]
                for part in ("gradients", "weights")
                for name, values in f[part].items()
            }
    return found


@pytest.mark.parametrize(
    ("precision", "comm_dtype"),
    [("fp32", "fp32"), ("bf16", "fp32"), ("bf16", "bf16"), ("fp16", "fp32")],
)
def test_two_ranks_dump_the_same_bits_sharded_or_not(paceline, tmp_path, precision, comm_dtype):
    args = ("--precision", precision, "--comm-dtype", comm_dtype)
    found = dumps(paceline, tmp_path, 2, *args)
    for shard in ("broadcast", "zero1"):
        for name, want in found["none"].items():
            assert np.array_equal(found[shard][name], want), (shard, name)


def test_what_is_kept_and_what_is_sent(paceline, tmp_path):
    ranks = 3
    args = ("--shard", "none,broadcast,zero1", "--warmup", 0, "--steps", 2)
    done = paceline("zero", *SMALL, *args, ranks=ranks)
    assert done.code == 0, done.err
    none, broadcast, zero1 = rows(tmp_path / "out.h5")
    assert [row["shard"] for row in (none, broadcast, zero1)] == ["none", "broadcast", "zero1"]
    ring = (ranks - 1) / ranks
    padded = none["sent_bytes"] / (2 * ring)  # one all_reduce of all gradients
    assert zero1["sent_bytes"] == pytest.approx(2 * ring * padded, rel=0.02)
    assert broadcast["sent_bytes"] == pytest.approx(3 * ring * padded, rel=0.02)
    state = none["optimizer_state_bytes"]
    assert zero1["optimizer_state_bytes"] == pytest.approx(state / ranks, rel=0.01)
    assert state / ranks <= broadcast["optimizer_state_bytes"] * 1.01 < state
    saved = none["peak_bytes"] - zero1["peak_bytes"]
    assert saved == pytest.approx(state * ring, rel=0.01)
    with h5py.File(tmp_path / "out.h5") as f:
        for row in (none, broadcast, zero1):
            case = f["cases"][row["case"]]
            form = dict(
                zip(
                    case["memory/closed_form/what"].asstr(),
                    case["memory/closed_form/ratio"][:],
                    strict=True,
                )
            )
            assert form["optimizer state"] == pytest.approx(1, abs=0.02)
            assert form["peak"] == pytest.approx(1, abs=0.02)
            # Every rank's own state, of which there is one in all but without sharding.
            marks = f["cases"][row["case"]]["memory"]
            last = marks["mark"].asstr()[:] == "after step"
            kept = marks["optimizer_state"][last & (marks["step"].asstr()[:] == "steady")]
            assert list(marks["rank"][last]) == [0, 0, 1, 1, 2, 2]
            assert kept.max() == row["optimizer_state_bytes"]
            copies = ranks if row["shard"] == "none" else 1
            assert kept.sum() == pytest.approx(copies * state, rel=0.01)
            if row["shard"] == "broadcast":  # owners keep no padding: m and v of every parameter
                assert len(set(kept)) > 1
                assert kept.sum() == 8 * PARAMETERS
        timeline = f["cases"][zero1["case"]]["timeline"]
        shown = (timeline["rank"][:] == 0) & (timeline["stream"][:] == b"communication")
        calls = timeline["scope"].asstr()[:][shown]
    kinds = [call.split(" ")[0] for call in calls]
    half = len(kinds) // 2
    # Parameters are gathered in the order of forward, then gradients scattered in that of backward.
    assert kinds == ["all_gather"] * half + ["reduce_scatter"] * half
    assert calls[0].startswith("all_gather token_embeddings.weight")


def test_a_shard_is_no_array_of_every_parameter(paceline, tmp_path):
    """Half of a state of four bytes an element is not a state of two."""
    args = ("--shard", "none,zero1", "--warmup", 0, "--steps", 1)
    done = paceline("zero", *SMALL, *args, ranks=2)
    assert done.code == 0, done.err
    none, zero1 = rows(tmp_path / "out.h5")
    with h5py.File(tmp_path / "out.h5") as f:
        arrays = [
            set(f["cases"][row["case"]]["memory/parameters/array"].asstr()[:])
            for row in (none, zero1)
        ]
    assert arrays[0] - arrays[1] == {"adam m", "adam v"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--sync", "naive"), "--sync"),
        (("--shard", "zero3"), "--shard"),
        (("--mode", "forward-backward"), "--mode: forward-backward has no optimizer"),
        (("--verify", "--precision", "bf16"), "--verify: compares in fp32"),
        (("--comm-dtype", "bf16", "--precision", "fp16"), "--comm-dtype: bf16 cannot stand"),
    ],
)
def test_wrong_use(paceline, args, words):
    done = paceline("zero", *SMALL, *args)
    assert done.code == 2
    assert words in done.err


def test_the_course_s_preset(paceline):
    done = paceline("zero", "--preset", "course", "--device", "cpu", "--dry-run", ranks=2)
    assert done.code == 0, done.err
    for shard in ("none", "broadcast", "zero1"):
        assert f"xl 128 2 fp32 naive eager train-step none {shard} 25 fp32" in done.out
