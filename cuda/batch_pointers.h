#pragma once
// Where a batch's matrices lie, as arrays of addresses that kernels read: of two batch dimensions,
// whose strides no single stride replaces. A kernel writes them, so that a graph replays it with
// the addresses that it captured, and nothing is copied from the host.

#include <cuda_runtime.h>

#include <cstdint>

#include "core/matrix.h"

namespace paceline {

struct BatchPointers {
  void* c = nullptr;  // device memory: [batch0, batch1] addresses, the second index the inner one
  const void* a = nullptr;
  const void* b = nullptr;
};

// Bytes that the addresses of three operands take.
[[nodiscard]] std::int64_t batch_pointer_bytes(const Matrix& c);
// Writes them to `memory`, in the stream's order. The three have the same batch.
BatchPointers write_batch_pointers(void* memory, const Matrix& c, const Matrix& a, const Matrix& b,
                                   cudaStream_t stream);

}  // namespace paceline
