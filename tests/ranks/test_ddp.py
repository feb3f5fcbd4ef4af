"""`ddp` under mpirun: it trains as one process would; the file has all exchanges."""

import h5py
import numpy as np
import pytest

from result_files import rows, summary

LAYERS, WIDTH, INNER = 2, 64, 192  # of size tiny
CPU = ("--device", "cpu", "--threads", 1, "--quiet", "--force", "--output", "out.h5")
TINY = ("ddp", "--size", "tiny", *CPU)


def parameter_names():
    """In the order in which backward completes their gradients."""
    yield from ("lm_head.weight", "ln_final.weight")
    for i in reversed(range(LAYERS)):
        yield from (f"layers.{i}.ffn.w{n}.weight" for n in (2, 1, 3))
        yield f"layers.{i}.ln2.weight"
        yield from (f"layers.{i}.attn.{x}_proj.weight" for x in ("output", "q", "k", "v"))
        yield f"layers.{i}.ln1.weight"
    yield "token_embeddings.weight"


# The elements that a rank sends in a step of size tiny with 2000 words, all_reduce by all_reduce.
# Computed by hand: the head and the table have 2000 x 64 = 128000 elements; w1, w2 and
# w3 have 64 x 192 = 12288 each; the four matrices of attention 64 x 64 = 4096; a norm 64. The store
# has one entry for w1 and w3, and one for q, k and v. The norms and the table are at its end, where
# each norm takes 128 elements.
FEED_FORWARD, ATTENTION = [12288] * 3, [4096] * 4
BLOCK_AS_READY = [*FEED_FORWARD, 64, *ATTENTION, 64]
SMALLEST_BUCKETS = [12288, 2 * 12288, 64, 4096, 3 * 4096, 64]
FIVE_NORMS = 4 * 128 + 64
SENT = {
    "naive": [128000, *2 * (FEED_FORWARD + ATTENTION), *[64] * 5, 128000],
    "overlap": [128000, 64, *2 * BLOCK_AS_READY, 128000],
    "flat": [128000 + 2 * (36864 + 16384) + 5 * 128 + 128000],
}
# Keys: the maximum of a bucket's elements, --bucket-mb over 4 or 2 bytes. The table's gradient is
# completed last and has its own bucket. So have the norms: no bucket mixes them with matrices.
SENT_IN_BUCKETS = {
    25: [128000, 64, *2 * SMALLEST_BUCKETS, 128000],
    50: [128000, 64, *2 * SMALLEST_BUCKETS, 128000],
    # head | w2 | w1, w3 | attention | w2 | w1, w3 | attention
    25_000: [128000, *2 * [12288, 24576, 16384], FIVE_NORMS, 128000],
    # head | w2, w1, w3, output | q, k, v, w2, w1, w3 | attention
    50_000: [128000, 40960, 49152, 16384, FIVE_NORMS, 128000],
    # head | a block, w2 | w1, w3, attention
    75_000: [128000, 65536, 40960, FIVE_NORMS, 128000],
    # head, w2 | w1, w3, attention, a block
    150_000: [140288, 94208, FIVE_NORMS, 128000],
    250_000_000: [128000 + 2 * 53248, FIVE_NORMS, 128000],
    500_000_000: [128000 + 2 * 53248, FIVE_NORMS, 128000],
}


def dumped(path):
    """{"weights": {name: values}, "gradients": ...} of a file of --dump."""
    with h5py.File(path) as f:
        return {part: {n: x[:] for n, x in f[part].items()} for part in ("weights", "gradients")}


def relative_l2(got, want):
    return np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want)


@pytest.mark.parametrize(
    "ranks", [1, 2, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 4))]
)
def test_every_strategy_trains_as_one_process_on_the_whole_batch(paceline, tmp_path, ranks):
    done = paceline(
        *(*TINY, "--verify", "--vocab", 128, "--context", 16, "--batch-size", 2),
        *("--sync", "none,naive,flat,overlap,bucketed", "--bucket-mb", "0.0001,0.01,1,1000"),
        *("--warmup", 0, "--steps", 1),
        ranks=ranks,
    )
    assert done.code == 0, done.err
    table = rows(tmp_path / "out.h5")
    assert [row["status"] for row in table] == ["ok"] * (1 + 3 + 4)
    assert [row["verify"] for row in table[1:]] == [5] * 7
    for row in table:
        assert ("one_rank" in row["warnings"].split(",")) == (ranks == 1)
    assert np.isnan(table[0]["verify"])
    names = set(parameter_names())
    with h5py.File(tmp_path / "out.h5") as f:
        for row in table:
            case = f["cases"][row["case"]]
            if row["sync"] == "none":
                assert "check" not in case
                continue
            tensors = list(case["check/tensor"].asstr())
            assert len(tensors) == len(names)
            assert set(tensors) == names
            for error in ("gradient_error", "sgd_error", "adamw_error"):
                errors = case[f"check/{error}"][:]
                assert len(errors) == len(names)
                assert row[f"verify_{error}"] == max(errors) <= 1
            # Sums over ranks round differently from sums over the whole batch.
            assert (row["verify_sgd_error"] > 0) == (row["verify_adamw_error"] > 0) == (ranks > 1)
            distances = case["check/adamw_distance"][:]
            assert row["verify_adamw_distance"] == max(distances) <= 1e-4


def test_verify_0_verifies_nothing(paceline, tmp_path):
    line = (*TINY, "--context", 16, "--steps", 1)
    assert paceline(*line, "--verify", 0, ranks=2).code == 0
    table = summary(tmp_path / "out.h5")
    assert table["verify"] == [0]
    assert "verify_sgd_error" not in table


@pytest.mark.parametrize(("limit", "says"), [("40MB", "--verify: "), ("20MB", "rank 0: about ")])
def test_a_verified_model_that_does_not_fit(paceline, tmp_path, limit, says):
    """Either the whole batch does not fit, or the rows of a rank."""
    shape = ("--context", 16, "--batch-size", 32)
    line = (*TINY, "--verify", *shape, "--steps", 1, "--memory-limit", limit)
    done = paceline(*line, ranks=2)
    assert done.code == 0, done.err
    (row,) = rows(tmp_path / "out.h5")
    assert row["status"] == "oom"
    assert row["reason"].startswith(says)
    assert f"about {row['predicted_peak_bytes'] / 1e6:.1f} MB are needed, " in row["reason"]


def test_gradients_and_weights_are_those_of_the_whole_batch(paceline, tmp_path):
    """The check of --verify, from outside: `model` on one rank trains the rows of both ranks."""
    args = ("--context", 16, "--vocab", 128, "--warmup", 1, "--steps", 2, "--dump", "dump.h5")
    model = ("model", "--size", "tiny", *CPU)
    assert paceline(*model, *args, "--batch-size", 4).code == 0
    whole = dumped(tmp_path / "dump.h5")
    assert paceline(*model, *args, "--batch-size", 2).code == 0
    part = dumped(tmp_path / "dump.h5")
    done = paceline(*TINY, *args, "--global-batch", 4, "--sync", "bucketed", ranks=2)
    assert done.code == 0, done.err
    together = dumped(tmp_path / "dump.h5")
    assert len(together["weights"]) == len(together["gradients"]) == 21
    for name, want in whole["gradients"].items():
        assert relative_l2(together["gradients"][name], want) < 1e-5, name
        assert relative_l2(part["gradients"][name], want) > 1e-2, name
    for name, want in whole["weights"].items():
        assert relative_l2(together["weights"][name], want) < 1e-5, name


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_record(paceline, tmp_path, dtype):
    ranks, steps = 2, 2
    done = paceline(
        *(*TINY, "--vocab", 2000, "--context", 16, "--batch-size", 2, "--comm-dtype", dtype),
        *("--sync", "none,naive,flat,overlap,bucketed", "--bucket-mb", "0.0001,0.1,0.3,1000"),
        *("--warmup", 1, "--steps", steps),
        ranks=ranks,
    )
    assert done.code == 0, done.err
    none, *table = rows(tmp_path / "out.h5")
    assert (none["sync"], len(table)) == ("none", 3 + 4)
    with h5py.File(tmp_path / "out.h5") as f:
        alone = f["cases"][none["case"]]
        assert set(alone["samples"]) == {"forward", "backward", "optimizer", "step"}
        assert "timeline" not in alone
        for row in table:
            check_record(row, f["cases"][row["case"]], dtype, (ranks, steps))


def check_record(row, case, dtype, shape):
    width = 2 if dtype == "bf16" else 4
    bucketed = row["sync"] == "bucketed"
    sent = SENT_IN_BUCKETS[round(1e6 * row["bucket_mb"] / width)] if bucketed else SENT[row["sync"]]
    assert row["communication_calls"] == len(sent)
    assert row["message_bytes"] == width * sum(sent)

    phases = ["forward", "backward", "communication_exposed", "optimizer"]
    samples = {phase: values[:] for phase, values in case["samples"].items()}
    assert set(samples) == {*phases, "communication_total", "step"}
    for values in samples.values():
        assert values.shape == shape
        assert (values > 0).all()
    assert (sum(samples[phase] for phase in phases) <= samples["step"] * 1.001).all()
    # The rehearsal, then the warm-up step.
    assert case["samples_warmup/communication_total"].shape == (shape[0], 2)

    median = {phase: np.median(values.max(axis=0)) for phase, values in samples.items()}
    assert row["communication_total_median_s"] == pytest.approx(median["communication_total"])
    share = median["communication_total"] / median["step"]
    assert row["communication_share"] == pytest.approx(share)
    exposed = median["communication_exposed"] / median["step"]
    assert row["exposed_share"] == pytest.approx(exposed)

    timeline = {name: column[:] for name, column in case["timeline"].items()}
    assert sorted(set(timeline["rank"])) == list(range(shape[0]))
    for rank in range(shape[0]):
        mine = timeline["rank"] == rank
        last_step = {phase: values[rank, -1] for phase, values in samples.items()}
        check_timeline({n: x[mine] for n, x in timeline.items()}, row, last_step)
        messages = [width * n for n in sent]
        assert list(timeline["message_bytes"][mine][len(phases) :]) == messages
        # In a ring a rank sends 2 (n - 1) / n of an all_reduce's message.
        ring = 2 * (shape[0] - 1) / shape[0]
        assert list(timeline["sent_bytes"][mine][len(phases) :]) == [ring * m for m in messages]


def check_timeline(timeline, row, seconds):
    """The intervals of one rank, and the phases of the step."""
    begin, end = timeline["begin"], timeline["end"]
    stream = timeline["stream"].astype(str)
    scope = timeline["scope"].astype(str)
    assert set(stream) == {"compute", "communication"}
    assert (begin < end).all()
    compute, communication = stream == "compute", stream == "communication"

    phases = ["forward", "backward", "communication_exposed", "optimizer"]
    assert list(scope[compute]) == phases
    assert begin[0] == 0
    assert (begin[compute][1:] == end[compute][:-1]).all()
    durations = [seconds[phase] for phase in phases]
    assert end[compute] - begin[compute] == pytest.approx(durations, abs=1e-9)
    assert np.isnan(timeline["sent_bytes"][compute]).all()

    assert all(name.startswith("all_reduce ") for name in scope[communication])
    assert scope[communication][0].startswith("all_reduce lm_head.weight")
    assert (begin[communication][1:] >= end[communication][:-1]).all()
    total = (end - begin)[communication].sum()
    assert total == pytest.approx(seconds["communication_total"], abs=1e-9)
    _, backward_end, exposed_end, _ = end[compute]
    assert exposed_end >= end[communication][-1]
    if row["sync"] in ("naive", "flat"):
        assert begin[communication][0] >= backward_end


@pytest.mark.parametrize("vocab", [128, pytest.param(5000, marks=pytest.mark.long)])
def test_memory_is_the_predicted(paceline, tmp_path, vocab):
    done = paceline(
        *(*TINY, "--context", 16, "--vocab", vocab, "--sync", "none,flat", "--batch-size", 2),
        *("--precision", "fp32,bf16", "--comm-dtype", "fp32,bf16", "--warmup", 0, "--steps", 1),
        ranks=2,
    )
    assert done.code == 0, done.err
    gradients = {}
    with h5py.File(tmp_path / "out.h5") as f:
        for row in rows(tmp_path / "out.h5"):
            assert row["peak_bytes"] == pytest.approx(row["predicted_peak_bytes"], rel=0.02)
            form = f["cases"][row["case"]]["memory/closed_form"]
            lines = dict(zip(form["what"].asstr()[:], range(len(form["what"])), strict=True))
            for what in ("gradients", "peak"):
                assert form["ratio"][lines[what]] == pytest.approx(1, abs=0.02), (row["case"], what)
            formula = form["formula"].asstr()[lines["gradients"]]
            gradients[row["precision"], row["comm_dtype"]] = formula
    products = LAYERS * (4 * WIDTH * WIDTH + 3 * WIDTH * INNER) + vocab * WIDTH
    others = vocab * WIDTH + (2 * LAYERS + 1) * WIDTH
    n = products + others
    assert gradients == {
        ("fp32", ""): f"{n} x 4",
        ("fp32", "fp32"): f"{n} x 4",
        ("fp32", "bf16"): f"{n} x 2 + {n} x 4",
        ("bf16", ""): f"{n} x 4",
        ("bf16", "fp32"): f"{n} x 4",
        ("bf16", "bf16"): f"{n} x 2 + {others} x 4",
    }


def test_none_is_model_bit_for_bit(paceline, tmp_path):
    args = ("--context", 16, "--vocab", 128, "--warmup", 1, "--steps", 2, "--dump", "dump.h5")
    assert paceline("model", "--size", "tiny", *CPU, *args, ranks=2).code == 0
    model = dumped(tmp_path / "dump.h5")
    (tmp_path / "dump.h5").unlink()
    assert paceline(*TINY, *args, "--sync", "none", ranks=2).code == 0
    none = dumped(tmp_path / "dump.h5")
    for part, values in model.items():
        assert values.keys() == none[part].keys()
        assert len(values) == 21
        for name, want in values.items():
            np.testing.assert_array_equal(none[part][name], want, err_msg=name)


def test_resume_shows_the_same_table(paceline, tmp_path):
    """A file has NaN where a factor, here --bucket-mb, does not apply to a case."""
    words = [*TINY, "--context", 8, "--sync", "none,bucketed", "--warmup", 0, "--steps", 1]
    words.remove("--quiet")
    words.remove("--force")
    tables = []
    for more in ([], ["--resume"]):
        done = paceline(*words, *more, ranks=2)
        assert done.code == 0, done.err
        tables.append(done.out.split("step: median")[0])
    assert tables[0] == tables[1]
    assert "nan" not in tables[0]


def test_global_batch_is_split(paceline, tmp_path):
    args = (*TINY, "--context", 16, "--vocab", 128, "--warmup", 0, "--steps", 1)
    assert paceline(*args, "--global-batch", 6, ranks=2).code == 0
    assert summary(tmp_path / "out.h5")["batch_size"] == [3]


def test_too_few_tokens_name_what_all_ranks_need(paceline, tmp_path):
    with h5py.File(tmp_path / "tokens.h5", "w") as file:
        file["tokens"] = np.ones((4, 8), dtype=np.int32)
        file["targets"] = file["tokens"][:]
    shape = ("--context", 8, "--batch-size", 2)
    done = paceline(*TINY, *shape, "--tokens", "tokens.h5", ranks=3)
    assert done.code == 2
    assert "holds tokens [4, 8]; [6, 8] are needed" in done.message
