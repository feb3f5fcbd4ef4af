"""Writes golden.h5: what PyTorch computes for three small models and for AdamW, in float64.

    python3 tests/golden/generate.py tests/golden/golden.h5

Needs torch, numpy and h5py; the tests need only the file, which is committed. The model is the
reference's 2025 edition: pre-norm blocks, RMSNorm (eps 1e-5), rotary embedding written back
interleaved, SwiGLU, an untied head, a causal mask of -inf, the mean cross-entropy.

/<model>/               attributes vocab, context, d_model, d_ff, layers, heads, batch, rope_theta,
                        edition; lr, beta1, beta2, eps, weight_decay, steps (of AdamW)
  tokens, targets       int32 [batch, context]
  weights/<name>        float32, by state-dict name
  logits                float32 [batch, context, vocab], before the first step
  loss                  float64, before the first step
  losses                float64 [steps + 1]: before each step on the same batch, and after the last
  gradients/<name>      float32, of the first step
  weights_after/<name>  float32, after `steps` steps. The group's attribute row_stride says which
                        rows of a matrix are kept: name[::row_stride]; vectors are whole
/adamw/                 initial [n], gradients [steps, n], result [n]: float64; attributes as above

paceline reads weights at a file's root or under weights/, and tokens and targets at the root, so a
test copies one model's group into the root of a temporary file and names that.

The file stays below 1 MiB, so weights are multiples of 1/64: exact in float32, and they compress.
Everything is computed from the stored values, and float32 results are rounded once, so what is
stored is good to 6e-8 of each value.
"""

import argparse
from dataclasses import asdict, dataclass

import h5py
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, silu

ROPE_THETA = 10000.0
ADAMW = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
MODEL_STEPS = 3
VECTOR_STEPS = 10


@dataclass(frozen=True)
class Config:
    vocab: int
    context: int
    d_model: int
    d_ff: int
    layers: int
    heads: int
    batch: int


# name: sizes, and the stride of the rows of weights_after that are kept.
MODELS = {
    "tiny": (Config(128, 16, 32, 64, 2, 4, 2), 1),
    "odd": (Config(97, 13, 48, 80, 3, 3, 3), 7),
    "head80": (Config(64, 8, 80, 96, 1, 1, 2), 7),
}


class RMSNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5))


def rotate(x: Tensor) -> Tensor:
    """Rotary embedding of x [..., T, d]: pairs (2j, 2j + 1) turn by position * theta^(-2j/d)."""
    positions, width = x.shape[-2:]
    frequency = ROPE_THETA ** (-torch.arange(0, width, 2) / width)  # [d/2]
    angle = torch.arange(positions)[:, None] * frequency  # [T, d/2]
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = (angle.cos() * even - angle.sin() * odd, angle.sin() * even + angle.cos() * odd)
    return torch.stack(turned, dim=-1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.heads = config.heads
        width = config.d_model
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.output_proj = nn.Linear(width, width, bias=False)

    def split(self, x: Tensor) -> Tensor:  # [B, T, D] -> [B, H, T, d]
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k = rotate(self.split(self.q_proj(x))), rotate(self.split(self.k_proj(x)))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # [B, H, T, T]
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        return self.output_proj((weights @ self.split(self.v_proj(x))).transpose(1, 2).flatten(-2))


class SwiGLU(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.w1 = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.w2 = nn.Linear(config.d_ff, config.d_model, bias=False)
        self.w3 = nn.Linear(config.d_model, config.d_ff, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.attn = Attention(config)
        self.ffn = SwiGLU(config)
        self.ln1 = RMSNorm(config.d_model)
        self.ln2 = RMSNorm(config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class LanguageModel(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.token_embeddings = nn.Embedding(config.vocab, config.d_model)
        self.layers = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.ln_final = RMSNorm(config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_final(x))


def draw_weight(rng: np.random.Generator, name: str, shape: torch.Size) -> np.ndarray:
    """The reference's distributions on a grid of 1/64; gains vary around 1, where it has ones."""
    if len(shape) == 1:
        values = 1 + 0.2 * rng.standard_normal(shape)
    else:
        std = 1.0 if name.startswith("token_embeddings") else (2 / sum(shape)) ** 0.5
        values = std * rng.standard_normal(shape).clip(-3, 3)
    return np.round(values * 64) / 64


def adamw(parameters: list[Tensor]) -> torch.optim.AdamW:
    return torch.optim.AdamW(
        parameters,
        lr=ADAMW["lr"],
        betas=(ADAMW["beta1"], ADAMW["beta2"]),
        eps=ADAMW["eps"],
        weight_decay=ADAMW["weight_decay"],
    )


def write(group: h5py.Group, name: str, values: Tensor | np.ndarray, dtype: str) -> None:
    if isinstance(values, Tensor):
        values = values.detach().numpy()
    values = np.asarray(values, dtype)
    # A chunk's index costs more than compression saves on a small dataset.
    small = values.nbytes < 2048
    options = {} if small else {"chunks": values.shape, "compression": 9, "shuffle": True}
    group.create_dataset(name, data=values, **options)


def write_model(group: h5py.Group, config: Config, row_stride: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = LanguageModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(draw_weight(rng, name, parameter.shape)))
            write(group, f"weights/{name}", parameter, "float32")
    tokens, targets = torch.from_numpy(
        rng.integers(0, config.vocab, (2, config.batch, config.context))
    )

    group.attrs.update(asdict(config) | ADAMW)
    group.attrs.update({"rope_theta": ROPE_THETA, "edition": "2025", "steps": MODEL_STEPS})
    write(group, "tokens", tokens, "int32")
    write(group, "targets", targets, "int32")

    optimizer = adamw(list(model.parameters()))
    losses = []
    for step in range(MODEL_STEPS):
        optimizer.zero_grad()
        logits = model(tokens)
        loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            write(group, "logits", logits, "float32")
            write(group, "loss", loss, "float64")
            for name, parameter in model.named_parameters():
                write(group, f"gradients/{name}", parameter.grad, "float32")
        optimizer.step()
    with torch.no_grad():
        losses.append(cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).item())
    write(group, "losses", np.array(losses), "float64")
    for name, parameter in model.named_parameters():
        kept = parameter[::row_stride] if parameter.dim() > 1 else parameter
        write(group, f"weights_after/{name}", kept, "float32")
    group["weights_after"].attrs["row_stride"] = row_stride


def write_adamw(group: h5py.Group, seed: int) -> None:
    """Gradients over 12 powers of ten, some zero: eps, and where it stands, must show."""
    rng = np.random.default_rng(seed)
    count = 1000
    initial = np.round(64 * rng.standard_normal(count)) / 64
    scale = 2.0 ** rng.integers(-36, 4, count)
    gradients = np.round(8 * rng.standard_normal((VECTOR_STEPS, count))) / 8 * scale
    parameter = nn.Parameter(torch.from_numpy(initial.copy()))
    optimizer = adamw([parameter])
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
    group.attrs.update(ADAMW | {"steps": VECTOR_STEPS})
    write(group, "initial", initial, "float64")
    write(group, "gradients", gradients, "float64")
    write(group, "result", parameter, "float64")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden values of the model and AdamW.")
    parser.add_argument("output", help="the HDF5 file to write")
    output = parser.parse_args().output
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    # HDF5 1.10's format: readable from that version on, and smaller than the oldest one.
    with h5py.File(output, "w", libver=("v110", "v110")) as file:
        file.attrs["software"] = f"torch {torch.__version__}"
        for seed, (name, (config, row_stride)) in enumerate(MODELS.items()):
            write_model(file.create_group(name), config, row_stride, seed)
        write_adamw(file.create_group("adamw"), len(MODELS))


if __name__ == "__main__":
    main()
