"""Communicators and attention that lie (lying.cpp): every experiment says `mismatch`, code 4.

One that only takes long changes nothing."""

import re
import time

import h5py
import pytest

from conftest import HOST, PROGRAM, needs_gpu_per_rank, run_line
from result_files import rows

RANKS = 2
LYING = PROGRAM.with_name("paceline_lying")
EVERY = 10**6  # more than the number of calls
# Exit codes go to files: mpirun would end the other ranks after the first code other than 0.
RUN_RANK = """
test $OMPI_COMM_WORLD_RANK -lt $FIRST_LIAR || export PACELINE_LIE="$LIES"
"$0" "$@"
echo $? > code.$OMPI_COMM_WORLD_RANK
"""
TINY = ("--size", "tiny", "--vocab", 32, "--context", 8, "--batch-size", 1, "--warmup", 0)
VERIFIED = (*TINY, "--steps", 1, "--verify", 2)
# Elements of the parameters of size tiny with this vocabulary, in the order of the store.
EMBEDDING = 32 * 64
BLOCK = 4 * 64 * 64 + 3 * 64 * 192
PRODUCTS = EMBEDDING + 2 * BLOCK
EVERYTHING = PRODUCTS + 5 * 128 + EMBEDDING  # with the norms, aligned
BOTH_EMBEDDINGS = 2  # messages of this size per step: lm_head has as many elements


def lie(what, operation, elements=0, first=1, last=EVERY):
    """One lie, as five words of PACELINE_LIE."""
    return f"{what} {operation} {elements} {first} {last}"


def launch(folder, lies, *args, first_liar=0, shell=("sh", "-c", RUN_RANK)):
    """Two ranks, of which those from first_liar on lie; each writes its exit code to a file.
    Without the shell both lie, and the code is the launch's."""
    told = " ".join(lies)
    variables = {"LIES": told, "FIRST_LIAR": str(first_liar)} if shell else {"PACELINE_LIE": told}
    line = ("mpirun", "--oversubscribe", "-np", RANKS, *shell, LYING, *args, "--output", "out.h5")
    return run_line(folder, line, **variables)


def check_codes(folder, done, code):
    codes = {file.name: int(file.read_text()) for file in folder.glob("code.*")}
    assert codes == {f"code.{r}": code for r in range(RANKS)}, done.out + done.err


@pytest.fixture
def lying(tmp_path, backend):
    """lying(lies, *args): the table's rows and stdout, after the same code on every rank."""
    needs_gpu_per_rank(backend, RANKS)
    where = ("--device", "cpu", "--threads", 1) if backend == "mpi" else ("--device", "cuda")

    def run(lies, *args, timeout=30, first_liar=0, code=4):
        common = (*where, "--timeout", timeout, "--quiet")
        done = launch(tmp_path, lies, *args, *common, first_liar=first_liar)
        check_codes(tmp_path, done, code)
        return rows(tmp_path / "out.h5"), done.out

    return run


with_backends = pytest.mark.parametrize("backend", ["mpi", "nccl"])


@with_backends
def test_collectives(lying, tmp_path, backend):
    """Two of the four calls of a case are timed. Every case has a different size."""
    honest, before, timed, after, beyond, bits = 100, 200, 300, 400, 2**20 + 8, 500
    lies = [
        lie("last", "all_reduce", before, 1, 1),
        lie("last", "all_reduce", timed, 3, 3),
        lie("last", "all_reduce", after, 4, 4),
        lie("last", "all_reduce", beyond, 1, 4),
        lie("flip", "all_reduce", bits, 5, 8),  # one bit is within the average's tolerance
    ]
    sizes = ",".join(str(4 * n) for n in (honest, before, timed, after, beyond, bits))
    table, shown = lying(
        lies,
        *("collectives", "--op", "all_reduce", "--redop", "sum,avg", "--bytes", sizes),
        *("--registration", "none", "--warmup", 0, "--steps", 2),
        *(("--memory-limit", "20MB") if backend == "mpi" else ()),
    )
    wrong = {}
    with h5py.File(tmp_path / "out.h5") as f:
        for row in table:
            check = f["cases"][row["case"]]["check"]
            per_call = zip(check["when"].asstr()[:], check["wrong"][:], strict=True)
            found = [(when, int(n)) for when, n in per_call if n]
            wrong[row["redop"], row["bytes"] // 4] = (row["status"], found)
    ok = ("ok", [])
    assert wrong == {
        ("sum", honest): ok,
        ("sum", before): ("mismatch", [("before", 1)] * RANKS),
        ("sum", timed): ("mismatch", [("timed", 1)] * RANKS),
        ("sum", after): ("mismatch", [("after", 1)] * RANKS),
        ("sum", beyond): ("mismatch", [("before", 1), ("timed", 1), ("after", 1)] * RANKS),
        ("sum", bits): ok,
        **{("avg", size): ok for size in (honest, before, timed, after, beyond)},
        ("avg", bits): ("mismatch", []),
    }
    assert shown.count("mismatch: wrong elements: 2") == 4
    assert shown.count("mismatch: the results of the ranks are not bitwise equal") == 1


@with_backends
def test_verify_of_ddp(lying, backend):
    """The rows of rank 0 are used twice: with SGD (naive), with AdamW (overlap)."""
    # The embeddings' calls: 2 steps of SGD, 1 for AdamW's gradients, 2 of AdamW; before SGD and
    # before AdamW, one that connects the ranks.
    connect = BOTH_EMBEDDINGS
    sgd = adamw = 2 * BOTH_EMBEDDINGS
    before_adamw = connect + sgd + connect + BOTH_EMBEDDINGS
    of_case = before_adamw + adamw  # a case that --verify rejects is not timed
    first = of_case + before_adamw + 1
    lies = [
        lie("root", "all_reduce", EMBEDDING, connect + 1, connect + sgd),
        lie("twice", "all_reduce", EVERYTHING),
        lie("root", "all_reduce", EMBEDDING, first, first + adamw - 1),
        lie("skip", "all_reduce", PRODUCTS, 2, 2),  # one bucket of one step
    ]
    table, shown = lying(lies, "ddp", *VERIFIED, "--sync", "naive,flat,overlap,bucketed")
    assert {row["sync"]: row["status"] for row in table} == dict.fromkeys(
        ["naive", "flat", "overlap", "bucketed"], "mismatch"
    )
    assert shown.count("mismatch: --verify: ") == 4


@with_backends
@pytest.mark.parametrize(
    ("lies", "status", "differ"),
    [
        # An owner broadcasts too early, after SGD's first step: the others keep the old values.
        # The calls that connect the ranks, and gathering, are honest. `none` does not lie.
        ([lie("skip", "broadcast", EMBEDDING, BOTH_EMBEDDINGS + 1, 2 * BOTH_EMBEDDINGS),
          lie("root", "reduce_scatter")],
         {"none": "ok", "broadcast": "mismatch", "zero1": "mismatch"}, False),
        ([lie("root", "reduce_scatter")], {"zero2": "mismatch", "fsdp": "mismatch"}, None),
        # A block's gathers, from the third on: forward or backward uses the slot's previous values.
        ([lie("skip", "all_gather", BLOCK, 3)], {"zero2": "ok", "fsdp": "mismatch"}, None),
        # Rank 0, which compares with a single process, has the correct values.
        ([lie("flip", "broadcast"), lie("flip", "all_gather")],
         dict.fromkeys(["none", "broadcast", "zero1", "zero2", "fsdp"], "mismatch"), True),
    ],
    ids=["early", "gradients", "gathers", "one_bit"],
)  # fmt: skip
def test_verify_of_zero(lying, backend, lies, status, differ):
    """differ: whether the reasons say so of the ranks; None: either."""
    table, shown = lying(lies, "zero", *VERIFIED, "--shard", ",".join(status))
    assert {row["shard"]: row["status"] for row in table} == status
    said = {"ranks differ" in row["reason"] for row in table}
    assert differ is None or said == {differ}
    assert shown.count("mismatch: --verify: ") == [*status.values()].count("mismatch")


@with_backends
def test_attention(lying, tmp_path, backend):
    """On rank 1 alone: forward lies at one length, backward at the other."""
    width = 16
    off = {8: "o", 9: "dq"}  # by context
    lies = [lie("wrong", "attention", 8 * width), lie("wrong", "attention_backward", 9 * 3 * width)]
    table, shown = lying(
        lies,
        *("attention", "--attention", "naive,fused,flash", "--context", "8,9"),
        *("--head-dim", width, "--batch-size", 1, "--cache", "warm", "--warmup", 0, "--steps", 1),
        first_liar=1,
    )
    assert len(table) == 2 * 3
    for context, output in off.items():
        of_context = [row for row in table if row["context"] == context]
        assert [row["status"] for row in of_context] == ["mismatch"] * 3
        assert shown.count(f"mismatch: {output} is off by ") == 3
    with h5py.File(tmp_path / "out.h5") as f:
        for row in table:
            check = f["cases"][row["case"]]["check"]
            outputs = check["output"].asstr()[:]
            bad = check["error"][:] > check["tolerance"][:]
            assert set(check["rank"][bad]) == {1}
            assert off[row["context"]] in outputs[bad]
            assert (row["context"] == 8) == ("o" in outputs[bad])


@pytest.mark.parametrize("backend", ["mpi"])
def test_ranks_wait_for_the_single_process_of_verify(lying, backend):
    """It takes longer than the timeout of collectives, while other ranks have nothing to do."""
    whole_batch = RANKS * 8 * 64  # sequences of 8 tokens; the ranks have one each
    late = lie("late", "attention", whole_batch, 1, 1)
    begin = time.monotonic()
    table, _ = lying([late], "ddp", *VERIFIED, "--sync", "flat", timeout=8, code=0)
    assert time.monotonic() - begin > 12  # seconds: it was late
    assert [row["status"] for row in table] == ["ok"]


@with_backends
def test_a_rank_that_throws_ends_the_launch_with_its_name_and_case(tmp_path, backend):
    needs_gpu_per_rank(backend, RANKS)
    kind = "cpu" if backend == "mpi" else "cuda"
    case = ("collectives", "--device", kind, "--bytes", "4KB", "--timeout", 30)
    done = launch(tmp_path, [lie("throw", "all_reduce", 1000, 2)], *case, shell=())
    assert done.code == 7, done.err
    where = f"rank 1 on {HOST}: 'collectives'"
    assert done.message == f"paceline: internal error: {where}: this was foreseen by nobody"
    assert not (tmp_path / "out.h5").exists()


@with_backends
def test_a_collective_that_lacks_memory_on_every_rank_makes_its_case_oom(lying, backend):
    """As NCCL, which allocates at the first use of an operation: the others go on."""
    elements = 1000
    lies = [
        lie("memory", "send_recv"),  # of the links' ceiling, which broadcast then sets
        lie("memory", "all_reduce", elements, 1, 1),
    ]
    sweep = ("--bytes", f"{4 * elements},8KB", "--warmup", 0, "--steps", 2)
    table, _ = lying(lies, "collectives", "--op", "all_reduce", *sweep, code=0)
    assert [row["status"] for row in table] == ["oom", "ok"]
    assert "rank 0: 'NCCL' asked for " in table[0]["reason"]
    assert table[1]["link_share"] > 0


@with_backends
@pytest.mark.parametrize(
    ("told", "options"),
    [
        pytest.param(lie("memory", "all_reduce", EVERYTHING, 1, 1), (), id="first_step"),
        pytest.param(lie("memory", "broadcast", 0, 1, 1), (), id="parameters"),
        pytest.param(lie("memory", "all_reduce", EVERYTHING, 1, 1), ("--verify", 2), id="verify"),
    ],
)
def test_a_gradient_exchange_that_lacks_memory_makes_its_case_oom(lying, told, options, backend):
    training = ("ddp", *TINY, "--steps", 1, "--sync", "flat,overlap", *options)
    table, _ = lying([told], *training, code=0)
    assert [row["status"] for row in table] == ["oom", "ok"]
    assert re.fullmatch(r"rank 0: 'NCCL' asked for .*; about .* are needed", table[0]["reason"])


@with_backends
@pytest.mark.parametrize(
    ("line", "rooms"),
    [
        pytest.param(("ddp", *TINY, "--steps", 1, "--sync", "flat,overlap"), (1, 1), id="ddp"),
        pytest.param(("zero", *TINY, "--steps", 1, "--shard", "fsdp,zero1"), (1, 1), id="gathers"),
        pytest.param(
            ("collectives", "--bytes", "4KB,8KB", "--warmup", 0, "--steps", 2),
            (7, 7),
            id="collectives",
        ),
    ],
)
def test_room_that_one_rank_lacks_makes_its_case_oom(lying, backend, line, rooms):
    """Without the question the others would wait in the collective that the rank cannot start."""
    told = [lie("memory", "require_free_memory", 0, *rooms), lie("memory", "duplicate")]
    table, _ = lying(told, *line, first_liar=1, timeout=10, code=0)
    assert [row["status"] for row in table] == ["oom", "ok"]
    assert "rank 1: 'NCCL' asked for " in table[0]["reason"]


@with_backends
def test_a_collective_that_lacks_memory_on_one_rank_ends_the_launch(tmp_path, backend):
    """The others wait in it."""
    needs_gpu_per_rank(backend, RANKS)
    kind = "cpu" if backend == "mpi" else "cuda"
    case = ("collectives", "--device", kind, "--bytes", "4KB", "--timeout", 3)
    done = launch(tmp_path, [lie("memory", "all_reduce", 1000)], *case, first_liar=1)
    assert done.code == 5, done.err
    said = done.message
    waits = ("all_reduce of 4.00 KB", "reporting out of memory")
    rank = int(said.startswith("paceline: rank 1: "))  # whichever was late first
    assert f"paceline: rank {rank}: collectives: {waits[rank]} did not finish in 3 s; " in said
    assert f"rank {1 - rank} on {HOST} waited in another operation ({waits[1 - rank]}); " in said


@pytest.mark.parametrize(
    ("operation", "says"),
    [("library", "MPI library: Open MPI .* [(]rank 0[)], Other MPI v1 [(]rank 1[)]; use the same"),
     ("nccl_version", "NCCL: .*[(]rank 0[)], 1.0.0 [(]rank 1[)]; use the same version")],
    ids=["MPI", "NCCL"],
)  # fmt: skip
def test_ranks_with_different_libraries_are_refused(tmp_path, operation, says):
    told = [lie("other", operation)]
    done = launch(tmp_path, told, "ddp", *TINY, "--device", "cpu", "--steps", 1, first_liar=1)
    assert re.match(f"paceline: {says}", done.message), done.message
    check_codes(tmp_path, done, code=2)
    assert not (tmp_path / "out.h5").exists()


def test_the_program_itself_cannot_lie():
    assert b"PACELINE_LIE" in LYING.read_bytes()
    assert b"PACELINE_LIE" not in PROGRAM.read_bytes()
