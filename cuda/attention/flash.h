#pragma once
// Flash attention on the GPU: the kernels' interface to CudaEagerOps. Ops::flash_attention() and
// its backward define the mathematics.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/ops.h"

namespace paceline {

// What the choice of kernel, the tiles and the workspace depend on.
struct FlashShape {
  std::int64_t batch = 0;
  std::int64_t context = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  Dtype dtype = Dtype::bf16;                  // of q, k, v, o and their gradients
  Fp32Attention fp32 = Fp32Attention::exact;  // where the dtype is float32
  bool causal = true;
  bool deterministic = false;  // backward: gradients are identical bit by bit from run to run
  FlashKernels kernels = FlashKernels::newest;
};

// [B, T, H, d], strides in elements; the d elements of a row are contiguous.
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

// Bytes that a call needs beside its operands, linear in T; 0 if none. The workspace must be
// 256-byte aligned.
[[nodiscard]] std::size_t flash_workspace_bytes(const FlashShape& shape, FlashPass pass);
[[nodiscard]] FlashPlan flash_plan(const FlashShape& shape);
// Throws EnvironmentError if this GPU has no flash kernel for the shape. Does nothing for naive and
// fused attention.
void check_flash(const OpsConfig& config, const AttentionShape& shape);

// Both enqueue on the stream without synchronising or allocating, so that a graph can capture them.
// They throw EnvironmentError if no kernel serves the shape on this GPU.
void flash_forward(const FlashForward& call);
void flash_backward(const FlashBackward& call);
// Throws InternalError: the kernels that were called do not serve the dtype.
[[noreturn]] void throw_no_flash(Dtype dtype);

}  // namespace paceline
