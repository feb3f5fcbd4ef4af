"""The formats of --tokens: each is read, or refused by its name, never misread."""

import io
import pickle

import h5py
import numpy as np
import pytest

RUN = ("--size", "tiny", "--context", 8, "--device", "cpu", "--threads", 1, "--warmup", 0,
       "--steps", 1, "--quiet", "--output", "out.h5", "--force")  # fmt: skip
FORWARD = ("model", *RUN, "--mode", "forward")
MODEL = (*FORWARD, "--vocab", 1000, "--batch-size", 2)
IDS = np.random.default_rng(0).integers(0, 1000, 400)
GPT2, LLAMA3 = (20240520, 1), (20240801, 7)


def npy(ids, version=(1, 0)):
    """The bytes of a .npy file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, ids, version=version)
    return file.getvalue()


def llmc(ids, header, count=None):
    """The bytes of a file of llm.c."""
    words = np.zeros(256, np.int32)
    words[:3] = *header, len(ids) if count is None else count
    return words.tobytes() + ids.tobytes()


def hdf5(**datasets):
    """The bytes of an HDF5 file."""
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made.update(datasets)
    return file.getvalue()


def loss(paceline, tmp_path, data, *options):
    (tmp_path / "tokens.bin").write_bytes(data)
    done = paceline(*MODEL, "--tokens", "tokens.bin", *options)
    assert done.code == 0, done.err
    with h5py.File(tmp_path / "out.h5") as file:
        (case,) = file["cases"].values()
        return float(case["values/loss"][0])


def test_every_format_of_a_sequence_gives_the_same_step(paceline, tmp_path):
    flat = loss(paceline, tmp_path, IDS.astype("<u2").tobytes())
    for data, *options in (
        (IDS.astype("<u2").tobytes(), "--token-dtype", "uint16"),
        (IDS.astype("<u4").tobytes(), "--token-dtype", "uint32"),
        (npy(IDS.astype("<u2")),),
        (npy(IDS.astype("<u2")), "--token-dtype", "uint16"),
        (npy(IDS, (2, 0)),),
        (npy(IDS.astype("<i4"), (3, 0)),),
        (llmc(IDS.astype("<u2"), GPT2),),
        (llmc(IDS.astype("<u4"), LLAMA3),),
        (llmc(IDS.astype("<u4"), LLAMA3), "--token-dtype", "uint32"),
        (hdf5(tokens=IDS[:16].reshape(2, 8), targets=IDS[1:17].reshape(2, 8)),),
        (hdf5(tokens=np.stack([IDS[:9], IDS[8:17]])),),
    ):
        assert loss(paceline, tmp_path, data, *options) == flat, options


@pytest.mark.parametrize("columns", [8, 9, 20])
def test_rows_of_npy_are_those_of_hdf5(paceline, tmp_path, columns):
    ids = IDS[: 4 * columns].reshape(4, columns)
    assert loss(paceline, tmp_path, npy(ids)) == loss(paceline, tmp_path, hdf5(tokens=ids))


FLAT = IDS.astype("<u2").tobytes()
PAIRS = np.stack([IDS, IDS], axis=1)
WIDE = np.arange(400, dtype="<u4").tobytes()
REFUSED = {
    "big-endian": (npy(IDS.astype(">u2")), "NPY of dtype '>u2'"),
    "real numbers": (npy(IDS.astype("f4")), "NPY of dtype '<f4'"),
    "truth values": (npy(IDS > 0), "NPY of dtype '|b1'"),
    "objects": (npy(np.array([1, None])), "NPY of dtype '|O'"),
    "records": (npy(np.zeros(9, [("id", "<u2")])), "NPY of dtype [('id'"),
    "fortran": (npy(np.asfortranarray(PAIRS)), "Fortran order"),
    "three dimensions": (npy(IDS.reshape(2, 4, 50)), "NPY of 3 dimensions"),
    "a scalar": (npy(np.array(1)), "NPY of 0 dimensions"),
    "half an array": (npy(IDS)[:1000], "872 bytes after its header, which claims 400 tokens"),
    "a longer array": (npy(IDS) + b"12", "3202 bytes after its header"),
    "half a header": (npy(IDS)[:50], "is cut off in its header of NPY"),
    "magic of NPY": (npy(IDS)[:7], "is cut off in its header of NPY"),
    "a matrix too narrow": (npy(IDS.reshape(80, 5)), "holds tokens [80, 5]; [2, 8] are needed"),
    "a matrix too short": (npy(IDS.reshape(1, 400)), "holds tokens [1, 400]; [2, 8] are needed"),
    "a short array": (npy(IDS[:16]), "holds 16 tokens of int64; 17 are needed"),
    "a negative id": (npy(IDS[:40] - 500), "as token "),
    "llm.c: a wrong count": (llmc(IDS.astype("<u2"), GPT2, 500), "which claims 500 tokens"),
    "llm.c: a negative count": (llmc(IDS.astype("<u2"), GPT2, -1), "which claims -1 tokens"),
    "llm.c: another version": (llmc(IDS.astype("<u2"), (20240520, 2)), "of version 2"),
    "llm.c: half a header": (llmc(IDS, GPT2)[:500], "is cut off in its header of llm.c"),
    "llm.c: another file": (llmc(IDS.astype("<u2"), (20240522, 1)), "is of llm.c, but not its"),
    "zip": (b"PK\x03\x04" + FLAT, "is a zip archive"),
    "gzip": (b"\x1f\x8b\x08\0" + FLAT, "is compressed (gzip)"),
    "pickle": (pickle.dumps(list(IDS)), "is a pickle"),
    "json": (b'{"tokens": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}', "is text"),
    "prose": ("Überall dieselbe alte Leier. ".encode() * 9, "is text"),
    "safetensors": (b"\x40" + bytes(7) + b'{"tokens": {}}' + FLAT, "is of safetensors"),
    "flat uint32": (WIDE, "holds 0 as every second uint16"),
    "flat int64": (np.arange(400).tobytes(), "holds 0 as every second uint16"),
    "half a token": (FLAT[:-1], "799 bytes: it is neither HDF5, NPY nor llm.c's, nor whole"),
    "nothing": (b"", "holds 0 tokens of uint16; 17 are needed"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_files_are_refused_by_name(paceline, tmp_path, kind):
    data, says = REFUSED[kind]
    (tmp_path / "tokens.bin").write_bytes(data)
    refused = paceline(*MODEL, "--tokens", "tokens.bin")
    assert refused.code == 2, refused.err
    assert refused.message.startswith("paceline: --tokens: tokens.bin ")
    assert says in refused.message


def test_a_dtype_that_contradicts_the_file(paceline, tmp_path):
    (tmp_path / "ids.h5").write_bytes(hdf5(tokens=IDS.reshape(20, 20).astype(np.int32)))
    (tmp_path / "ids.npy").write_bytes(npy(IDS))
    (tmp_path / "ids.bin").write_bytes(llmc(IDS.astype("<u2"), GPT2))
    for name, own in (("ids.h5", "int32"), ("ids.npy", "int64"), ("ids.bin", "uint16")):
        refused = paceline(*MODEL, "--tokens", name, "--token-dtype", "uint32")
        assert refused.code == 2
        assert refused.message == (
            f"paceline: --token-dtype: {name} says itself that it holds {own}; leave the option out"
        )
    refused = paceline(*MODEL, "--token-dtype", "uint32")
    assert (refused.code, "it goes with --tokens" in refused.message) == (2, True)


def test_a_vocabulary_beyond_uint16(paceline, tmp_path):
    (tmp_path / "ids.bin").write_bytes(np.arange(69_000, 69_400, dtype="<u4").tobytes())
    line = (*FORWARD, "--vocab", 70000, "--tokens", "ids.bin")
    refused = paceline(*line)
    assert refused.code == 2
    assert "--token-dtype: uint16 holds ids below 65536, --vocab is 70000" in refused.message
    assert paceline(*line, "--token-dtype", "uint32").code == 0


@pytest.mark.parametrize(
    "position", [0, *(pytest.param(one, marks=pytest.mark.long) for one in (16, 24)), 39]
)
def test_the_first_id_outside_the_vocabulary_is_named(paceline, tmp_path, position):
    """Of all ranks, each of which reads its own rows."""
    ids = IDS[:80].astype("<u2")
    ids[[position, 40]] = 60_000, 60_001
    (tmp_path / "ids.bin").write_bytes(ids.tobytes())
    line = ("ddp", *RUN, "--vocab", 1000, "--global-batch", 6, "--tokens")
    refused = paceline(*line, "ids.bin", ranks=3)
    assert refused.code == 2
    assert f"holds 60000 as token {position};" in refused.message
    (tmp_path / "ids.npy").write_bytes(npy(ids.reshape(8, 10)))
    refused = paceline(*line, "ids.npy", ranks=3)
    column = position % 10
    where = f"60000 as tokens[{position // 10}, {column}]"
    assert (where if column < 9 else "60001 as tokens[4, 0]") in refused.message


def test_only_the_rows_of_a_rank_are_read(paceline, tmp_path):
    """Chunks of other rows are damaged."""
    with h5py.File(tmp_path / "ids.h5", "w") as file:
        tokens = file.create_dataset("tokens", (8, 20), "u2", chunks=(1, 20), compression="gzip")
        for row in range(8):
            if row < 2:
                tokens[row] = IDS[:20]
            else:
                tokens.id.write_direct_chunk((row, 0), b"damaged")
    done = paceline(*MODEL, "--tokens", "ids.h5")
    assert done.code == 0, done.err
    refused = paceline(*FORWARD, "--vocab", 1000, "--batch-size", 3, "--tokens", "ids.h5")
    assert refused.code == 2
    assert "ids.h5 cannot be read: a dataset is damaged" in refused.message
