// Chooses the kernels of a call by GPU and shape.

#include "cuda/attention/flash.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>

#include "core/error.h"
#include "cuda/attention/head_dim.h"
#include "cuda/attention/sm80.h"
#include "cuda/attention/sm90.h"
#include "cuda/current_device.h"

namespace paceline {

namespace {

constexpr std::int64_t max_heads = 65535;  // of a grid's second and third dimension

bool is_exact(const FlashShape& s) {
  return s.dtype == Dtype::f32 && s.fp32 == Fp32Attention::exact;
}

bool uses_sm90(const FlashShape& s, FlashPass pass) {
  if (s.kernels != FlashKernels::newest || compute_capability() != 90) return false;
  const bool bf16x3 = s.dtype == Dtype::f32 && s.fp32 == Fp32Attention::bf16x3;
  return s.dtype != Dtype::f32 || (bf16x3 && pass == FlashPass::forward);
}

// The kernels need Ampere's instructions and the shared memory of a data-centre GPU.
void check_gpu() {
  constexpr int shared_bytes_needed = 163 * 1024;
  static const int shared_bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (compute_capability() < 80 || shared_bytes < shared_bytes_needed) {
    throw EnvironmentError(
        "--attention flash needs a GPU of compute capability 8.0 or newer with 163 KiB of shared "
        "memory a block (A100, H100, H200); use naive or fused");
  }
}

void check_shape(const FlashShape& s) {
  if (s.batch * s.context * s.heads < 1) throw InternalError("flash attention of no rows");
  if (std::find(head_dims.begin(), head_dims.end(), s.head_dim) == head_dims.end()) {
    throw EnvironmentError(fmt::format(
        "--attention flash on a GPU serves head dimensions {}, not {}; use naive or fused",
        fmt::join(head_dims, ", "), s.head_dim));
  }
  if (s.dtype != Dtype::f32 && s.dtype != Dtype::bf16 && s.dtype != Dtype::f16) {
    throw EnvironmentError(
        "--attention flash on a GPU serves float32, bfloat16 and float16 inputs");
  }
  if (s.batch > max_heads || s.batch * s.heads > max_heads) {
    throw EnvironmentError(
        fmt::format("--attention flash on a GPU serves up to {} heads in a batch, not {} x {}",
                    max_heads, s.batch, s.heads));
  }
}

// Kernels move 16 bytes at a time, and Ampere's kernels index the elements of a head in 32 bits.
void check_heads(const FlashShape& s, FlashPass pass, std::initializer_list<FlashHeads> all) {
  const std::int64_t pack = 16 / static_cast<std::int64_t>(size_of(s.dtype));
  for (const FlashHeads& x : all) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
                         x.batch_stride % pack == 0 && x.row_stride % pack == 0 &&
                         x.head_stride % pack == 0;
    if (!aligned) throw InternalError("flash attention: rows must start at multiples of 16 bytes");
    // Kernels compute, but do not use, addresses of up to a tile of rows past the last. The rows of
    // bf16x3 have twice the elements.
    const std::int64_t row =
        s.dtype == Dtype::f32 ? std::max(x.row_stride, 2 * s.head_dim) : x.row_stride;
    if (!uses_sm90(s, pass) && (s.context + 128) * row > std::numeric_limits<std::int32_t>::max()) {
      throw EnvironmentError(fmt::format(
          "--attention flash on a GPU: {} rows, {} elements apart, are more than it can address",
          s.context, row));
    }
  }
}

}  // namespace

void throw_no_flash(Dtype dtype) {
  throw InternalError("no flash kernel of " + std::string(name_of(dtype)) + " on this path");
}

std::size_t flash_workspace_bytes(const FlashShape& s, FlashPass pass) {
  check_shape(s);
  if (s.dtype != Dtype::f32 && uses_sm90(s, pass)) {  // bf16x3 needs the split operands of sm80
    return pass == FlashPass::forward ? 0 : sm90_backward_workspace_bytes(s);
  }
  return static_cast<std::size_t>(sm80_workspace(s, pass).end);
}

FlashPlan flash_plan(const FlashShape& s) {
  check_gpu();
  check_shape(s);
  if (is_exact(s)) return {exact_tiles, exact_tiles};
  const auto head_dim = static_cast<int>(s.head_dim);
  const int bytes = static_cast<int>(size_of(s.dtype));
  const Sm80ForwardTiles forward = sm80_forward_tiles(head_dim, bytes);
  const Sm80BackwardTiles backward = sm80_backward_tiles(head_dim, bytes);
  FlashPlan plan{.forward = {"sm80", forward.queries(), forward.keys},
                 .backward = {"sm80", backward.queries, backward.keys}};
  if (uses_sm90(s, FlashPass::forward)) plan.forward = sm90_forward_tiles(s);
  if (uses_sm90(s, FlashPass::backward)) plan.backward = sm90_backward_tiles(s);
  return plan;
}

namespace {

void sm80_backward_of_fp32(const FlashBackward& call) {
  switch (call.shape.fp32) {
    case Fp32Attention::bf16x3: return sm80_backward_bf16x3(call);
    case Fp32Attention::tf32: return sm80_backward_tf32(call);
    case Fp32Attention::exact: break;
  }
  throw_no_flash(call.shape.dtype);
}

void sm80_backward(const FlashBackward& call) {
  switch (call.shape.dtype) {
    case Dtype::bf16: return sm80_backward_bf16(call);
    case Dtype::f16: return sm80_backward_fp16(call);
    case Dtype::f32: return sm80_backward_of_fp32(call);
    case Dtype::f64:
    case Dtype::i32: break;
  }
  throw_no_flash(call.shape.dtype);
}

void sm80_forward(const FlashForward& call) {
  switch (call.shape.dtype) {
    case Dtype::bf16:
    case Dtype::f16: return sm80_forward_half(call);
    case Dtype::f32: return sm80_forward_fp32(call);
    case Dtype::f64:
    case Dtype::i32: break;
  }
  throw_no_flash(call.shape.dtype);
}

}  // namespace

void flash_forward(const FlashForward& call) {
  check_gpu();
  check_shape(call.shape);
  check_heads(call.shape, FlashPass::forward, {call.q, call.k, call.v, call.o});
  if (is_exact(call.shape)) {
    exact_forward(call);
  } else if (uses_sm90(call.shape, FlashPass::forward)) {
    sm90_forward(call);
  } else {
    sm80_forward(call);
  }
}

void flash_backward(const FlashBackward& call) {
  check_gpu();
  check_shape(call.shape);
  check_heads(call.shape, FlashPass::backward,
              {call.q, call.k, call.v, call.o, call.d_o, call.dq, call.dk, call.dv});
  if (is_exact(call.shape)) {
    exact_backward(call);
  } else if (uses_sm90(call.shape, FlashPass::backward)) {
    sm90_backward(call);
  } else {
    sm80_backward(call);
  }
}

}  // namespace paceline
