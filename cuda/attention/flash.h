#pragma once
// Flash attention on the GPU: what CudaEagerOps asks of the kernels. The mathematics is that of
// Ops::flash_attention() and its backward.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/ops.h"

namespace paceline {

// What kernel, tiles and workspace depend on.
struct FlashShape {
  std::int64_t batch = 0;
  std::int64_t context = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  Dtype dtype = Dtype::bf16;                  // of q, k, v, o and their gradients
  Fp32Attention fp32 = Fp32Attention::exact;  // where the dtype is float32
  bool causal = true;
  bool deterministic = false;  // backward: the same bits from run to run
  FlashKernels kernels = FlashKernels::newest;
};

// [B, T, H, d], strides in elements; the d elements of a row are neighbours.
struct FlashHeads {
  void* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;

  template <class T>
  [[nodiscard]] constexpr T* head(std::int64_t batch, std::int64_t head) const {
    return static_cast<T*>(data) + (batch * batch_stride + head * head_stride);
  }
};

struct FlashForward {
  FlashShape shape;
  float scale = 1;
  FlashHeads q, k, v;
  FlashHeads o;                // written
  float* logsumexp = nullptr;  // [B, H, T], written
  void* workspace = nullptr;   // flash_workspace_bytes(shape, FlashPass::forward), any contents
  cudaStream_t stream = nullptr;
};

struct FlashBackward {
  FlashShape shape;
  float scale = 1;
  FlashHeads q, k, v, o, d_o;
  const float* logsumexp = nullptr;  // [B, H, T]
  FlashHeads dq, dk, dv;             // written
  void* workspace = nullptr;         // flash_workspace_bytes(shape, FlashPass::backward), likewise
  cudaStream_t stream = nullptr;
};

enum class FlashPass : std::uint8_t { forward, backward };

// Memory that a call needs beside its operands: linear in T. 256-byte aligned, 0 where none.
[[nodiscard]] std::size_t flash_workspace_bytes(const FlashShape& shape, FlashPass pass);
[[nodiscard]] FlashPlan flash_plan(const FlashShape& shape);
// Throws EnvironmentError if this GPU has no kernel for the shape. Does nothing for naive and fused
// attention.
void check_flash(const OpsConfig& config, const AttentionShape& shape);

// Enqueue on the stream, without waiting for the GPU or allocating, so that a graph can capture
// them. Throw EnvironmentError where no kernel serves the shape on this GPU.
void flash_forward(const FlashForward& call);
void flash_backward(const FlashBackward& call);
// Throws InternalError: a call has come to kernels that do not serve the dtype.
[[noreturn]] void throw_no_flash(Dtype dtype);

}  // namespace paceline
