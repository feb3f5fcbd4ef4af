"""The course's accounting of xxl: `paceline plan --preset xxl` prints these and more, with every
formula's numbers."""

from math import ceil

LAYERS, D_MODEL, D_FF = 126, 16384, 53248
PARAMETERS = 2 * LAYERS * D_MODEL * D_FF  # two matrices a block
WEIGHTS = 4 * PARAMETERS  # bytes, fp32
STATE = 16 * PARAMETERS  # weights, gradients, Adam's m and v
SAVED_PER_TOKEN = 2 * LAYERS * (D_MODEL + D_FF)  # bytes, bf16
# Attention of the course's largest case: batch 8, context 16,384, head dimension 16, fp32.
BATCH, CONTEXT, HEAD_DIM = 8, 16384, 16
SCORES = 4 * BATCH * CONTEXT**2
QKV = 3 * 4 * BATCH * CONTEXT * HEAD_DIM
H100, TPU_V5P = 80e9, 95e9  # bytes

# The course's mesh of TPU v5p: X ranks of FSDP by Y tensor-parallel ones, with M_X and M_Y links.
X, Y, M_X, M_Y = 16, 4, 2, 1
RATE, BANDWIDTH = 4.6e14, 2 * 9e10  # C in FLOP/s, W in bytes/s of a link
# Seconds of the forward pass, which is 2 P FLOPs a token: of products and of the exchange of
# activations, by token of the batch; of gathering bf16 parameters, by step.
PRODUCTS = 2 * PARAMETERS / (X * Y * RATE)
ACTIVATIONS = 2 * 2 * LAYERS * D_MODEL / X / (BANDWIDTH * M_Y)
GATHERS = 2 * PARAMETERS / Y / (BANDWIDTH * M_X)
OVERLAPPED = GATHERS / PRODUCTS  # tokens
SERIAL = GATHERS / (PRODUCTS - ACTIVATIONS)
# State and half of a token's activations, in TPU_V5P on each of N devices; the other half is whole.
RANKS = ceil((STATE + SAVED_PER_TOKEN / 2) / (TPU_V5P - SAVED_PER_TOKEN / 2))

# Quantity, formula, value and unit.
ROWS = (
    ("parameters", "2 L D F = 2 x 126 x 16384 x 53248", PARAMETERS, ""),
    ("weights, fp32", "4 P", WEIGHTS, "bytes"),
    ("gradients, fp32", "4 P", WEIGHTS, "bytes"),
    ("Adam's m and v, fp32", "8 P", 2 * WEIGHTS, "bytes"),
    ("weights, gradients and Adam's state", "16 P", STATE, "bytes"),
    ("kept for backward by a token, bf16", "2 L (D + F)", SAVED_PER_TOKEN, "bytes"),
    ("H100 of 80 GB that hold the state", "16 P / 80e9, rounded up", ceil(STATE / H100), ""),
    ("TPU v5p of 95 GB that hold the state", "16 P / 95e9, rounded up", ceil(STATE / TPU_V5P), ""),
    ("N of these over which state and half of a token's activations A are sharded",
     "16 P / N + A / 2 + A / (2 N) < 95e9", RANKS, ""),
    ("tokens of a step that is compute bound, overlapped", "B 2 P / (X Y C) > 2 P / (Y W M_X)",
     round(OVERLAPPED), ""),
    ("tokens of a step that is compute bound, serial",
     "B 2 P / (X Y C) > 2 P / (Y W M_X) + B 4 L D / (X W M_Y)", round(SERIAL), ""),
    ("attention scores, batch 8, context 16,384", "4 B T^2", SCORES, "bytes"),
    ("q, k and v of it, head dimension 16", "3 x 4 B T d", QKV, "bytes"),
)  # fmt: skip

# By the quantity's name in published/accounting.csv: bytes or a count.
PUBLISHED = {
    "parameters of xxl": PARAMETERS,
    "weights in fp32": WEIGHTS,
    "gradients in fp32": WEIGHTS,
    "Adam state in fp32": 2 * WEIGHTS,
    "weights, gradients and Adam state": STATE,
    "saved for backward in bf16, of batch 1": SAVED_PER_TOKEN,
    "devices of 80 GB": ceil(STATE / H100),
    "least ranks of FSDP, 95 GB each": ceil(STATE / TPU_V5P),
    "ranks of FSDP are more than, 95 GB each": ceil(STATE / TPU_V5P) - 1,
    "attention's Q, K and V in fp32, batch 8, context 16384, head_dim 16": QKV,
    "attention's scores in fp32, batch 8, context 16384": SCORES,
    "attention's scores and softmax": 2 * SCORES,
}
