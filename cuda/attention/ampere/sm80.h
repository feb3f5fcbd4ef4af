#pragma once
// Flash attention with the instructions of sm_80 (mma.sync, ldmatrix, cp.async), which later GPUs
// have as well.

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "cuda/attention/flash.h"

namespace paceline {

// Tile sizes. element_bytes is 2 (bfloat16 and float16) or 4 (float32 as tf32 or as two bfloat16).
struct Sm80ForwardTiles {
  int warps;
  int warp_queries;
  int keys;

  [[nodiscard]] constexpr int queries() const { return warps * warp_queries; }
};

// Two blocks fit into the registers of a multiprocessor: S and O take 176 or 192 of the 255
// registers of a thread.
constexpr Sm80ForwardTiles sm80_forward_tiles(int head_dim, int element_bytes) {
  if (element_bytes == 4) return {4, 16, 64};
  if (head_dim == 128) return {4, 32, 48};
  if (head_dim == 80) return {4, 32, 64};
  return {4, 32, 128};
}

// The warps that share a product, by rows and columns of the result.
struct WarpGrid {
  int rows;
  int columns;
};

struct Sm80BackwardTiles {
  int queries;
  int keys;
  WarpGrid scores;          // of S^T and dP^T [keys, queries]
  WarpGrid key_gradient;    // of dK and dV [keys, d]
  WarpGrid query_gradient;  // of dQ [queries, d]

  [[nodiscard]] constexpr int warps() const { return scores.rows * scores.columns; }
};

// Shared memory holds K, V, two tiles of Q and dO, P and dS: at most 162 of the 163 KiB of sm_80.
constexpr Sm80BackwardTiles sm80_backward_tiles(int head_dim, int element_bytes) {
  if (element_bytes == 4) {
    if (head_dim <= 32) return {64, 64, {2, 2}, {4, 1}, {4, 1}};
    if (head_dim == 80) return {64, 64, {2, 2}, {4, 1}, {4, 1}};
    return {32, 64, {4, 2}, {4, 2}, {2, 4}};
  }
  if (head_dim <= 64) return {128, 128, {4, 2}, {4, 2}, {4, 2}};
  if (head_dim == 80) return {64, 128, {4, 2}, {4, 2}, {4, 2}};
  return {64, 128, {4, 2}, {4, 2}, {2, 4}};
}

// Exact float32 has tiles of 64 rows.
inline constexpr FlashTiles exact_tiles{"exact", 64, 64};

// Byte offsets of the parts of a workspace; `end` is its size, which is linear in T.
struct Sm80Workspace {
  std::int64_t operands = 0;   // converted float32: 4 bytes per element of Q, K, V (and dO)
  std::int64_t logsumexp = 0;  // backward: L log2(e) [B, H, padded]
  std::int64_t delta = 0;      // D [B, H, padded]
  std::int64_t dq_sums = 0;    // [B, H, padded, d]; absent when deterministic or exact
  std::int64_t end = 0;
};

// T rounded up to whole tiles of queries, the largest of which has 128.
constexpr std::int64_t sm80_padded(std::int64_t context) { return (context + 127) / 128 * 128; }

inline Sm80Workspace sm80_workspace(const FlashShape& s, FlashPass pass) {
  const auto aligned = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const bool backward = pass == FlashPass::backward;
  const bool exact = s.dtype == Dtype::f32 && s.fp32 == Fp32Attention::exact;
  const std::int64_t operands = s.dtype == Dtype::f32 && !exact ? (backward ? 4 : 3) : 0;
  const std::int64_t rows = backward ? s.batch * s.heads * sm80_padded(s.context) : 0;
  Sm80Workspace w;
  w.logsumexp = aligned(operands * s.batch * s.heads * s.context * s.head_dim * 4);
  w.delta = w.logsumexp + aligned(rows * 4);
  w.dq_sums = w.delta + aligned(rows * 4);
  w.end = w.dq_sums + (s.deterministic || exact ? 0 : aligned(rows * s.head_dim * 4));
  return w;
}

// What the backward pass needs of each query [B, H, padded]. The values past T make P and dS zero.
struct QueryRows {
  float* logsumexp;  // L log2(e); infinity past T
  float* delta;      // D; 0 past T
  int padded;        // rows per head, a multiple of every tile size
};

// The rows in the call's workspace.
inline QueryRows query_rows(const FlashBackward& call) {
  const Sm80Workspace at = sm80_workspace(call.shape, FlashPass::backward);
  auto* const memory = static_cast<char*>(call.workspace);
  return {reinterpret_cast<float*>(memory + at.logsumexp),
          reinterpret_cast<float*>(memory + at.delta),
          static_cast<int>(sm80_padded(call.shape.context))};
}

// Enqueues the conversion of q, k and v to high and low parts in the call's workspace [B, H, T,
// part, d]. Returns the call on them: its shape is that of bfloat16 with 2 d columns; o stays
// float32 with d columns.
FlashForward with_split_operands(const FlashForward& call);

// The size of sm80_workspace() in bytes.
[[nodiscard]] std::size_t sm80_workspace_bytes(const FlashShape& shape, FlashPass pass);

// The kernels of this header and of exact_*.cu compute a head's offsets, in elements, in 32 bits.
// Throws EnvironmentError if an operand's do not fit.
void check_32_bit_offsets(const FlashShape& shape, std::span<const FlashHeads> all);

// The implementations of flash.h's calls, for shapes that flash.cpp has checked.
void sm80_forward_half(const FlashForward& call);  // bfloat16 and float16
void sm80_forward_fp32(const FlashForward& call);  // bf16x3 and tf32
void sm80_backward_bf16(const FlashBackward& call);
void sm80_backward_fp16(const FlashBackward& call);
void sm80_backward_bf16x3(const FlashBackward& call);
void sm80_backward_tf32(const FlashBackward& call);
void exact_forward(const FlashForward& call);
void exact_backward(const FlashBackward& call);

}  // namespace paceline
