"""Input files for random command lines: tokens and weights, valid or not."""

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

TOKEN_FORMATS = ("hdf5", "hdf5", "hdf5", "uint16", "uint32", "npy", "llm.c")


@dataclass(frozen=True)
class Tokens:
    """Tokens [rows, columns] below `vocab`."""

    rows: int
    columns: int
    vocab: int
    format: str  # of TOKEN_FORMATS
    targets: bool

    def write(self, path: Path) -> None:
        random = np.random.default_rng(self.rows)
        tokens = random.integers(0, self.vocab, (self.rows, self.columns + 1))
        if self.format in ("uint16", "uint32"):
            tokens.astype(self.format).tofile(path)
            return
        if self.format == "npy":
            with path.open("wb") as file:
                np.save(file, tokens)
            return
        if self.format == "llm.c":
            header = np.zeros(256, np.int32)
            header[:3] = 20240520, 1, tokens.size
            path.write_bytes(header.tobytes() + tokens.astype(np.uint16).tobytes())
            return
        with h5py.File(path, "w") as file:
            file["tokens"] = tokens[:, :-1]
            if self.targets:
                file["targets"] = tokens[:, 1:]


@dataclass(frozen=True)
class Weights:
    """Weights of a model of these dimensions, with the names of the reference's state dict."""

    d_model: int
    d_ff: int
    layers: int
    vocab: int
    grouped: bool  # in the group weights/, not at the root

    def shapes(self) -> dict[str, tuple[int, ...]]:
        width, inner, vocab = self.d_model, self.d_ff, self.vocab
        shapes = {
            "token_embeddings.weight": (vocab, width),
            "ln_final.weight": (width,),
            "lm_head.weight": (vocab, width),
        }
        for layer in range(self.layers):
            block = {
                **{f"attn.{name}_proj": (width, width) for name in ("q", "k", "v", "output")},
                **{"ffn.w1": (inner, width), "ffn.w2": (width, inner), "ffn.w3": (inner, width)},
                **{"ln1": (width,), "ln2": (width,)},
            }
            shapes |= {f"layers.{layer}.{name}.weight": shape for name, shape in block.items()}
        return shapes

    def write(self, path: Path) -> None:
        random = np.random.default_rng(self.d_model)
        with h5py.File(path, "w") as file:
            root = file.create_group("weights") if self.grouped else file
            for name, shape in self.shapes().items():
                root[name] = random.normal(0, 0.02, shape).astype(np.float32)


@dataclass(frozen=True)
class NoHdf5:
    """An odd number of bytes that are not HDF5: neither an HDF5 file nor flat uint16 tokens."""

    def write(self, path: Path) -> None:
        path.write_bytes(b"no HDF5")


Input = Tokens | Weights | NoHdf5
