#pragma once
// Arrays of the addresses of a batch's matrices, for products with two batch dimensions, which no
// single stride describes. A kernel writes them: a graph replays that kernel with the captured
// addresses, and nothing is copied from the host.

#include <cuda_runtime.h>

#include <cstdint>

#include "core/matrix.h"

namespace paceline {

struct BatchPointers {
  void* c = nullptr;  // device memory: addresses [batch0, batch1], row-major
  const void* a = nullptr;
  const void* b = nullptr;
};

// Bytes for the addresses of three operands.
[[nodiscard]] std::int64_t batch_pointer_bytes(const Matrix& c);
// Enqueues a kernel that writes them to `memory`. The three operands have the same batch
// dimensions.
BatchPointers write_batch_pointers(void* memory, const Matrix& c, const Matrix& a, const Matrix& b,
                                   cudaStream_t stream);

}  // namespace paceline
