#pragma once
// Arrays of the addresses of a batch's matrices, for products with two batch dimensions, which no
// single stride describes.

#include <cuda_runtime.h>

#include <array>
#include <vector>

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/tensor.h"

namespace paceline {

struct BatchPointers {
  void* c = nullptr;  // device memory: addresses [batch0, batch1], row-major
  const void* a = nullptr;
  const void* b = nullptr;
};

// The arrays of one product, whose calls differ only in the operands' addresses. A kernel writes
// them; nothing is copied from the host. The addresses are the same in every step, so replays use
// the arrays written in the rehearsal, and the kernel is not part of the graph.
class BatchPointerArrays : NonCopyable {
 public:
  // c: an operand of the product. Device memory for several calls with different addresses.
  BatchPointerArrays(Device& device, const Matrix& c);

  // Enqueues the kernel unless an earlier call had the same addresses. Addresses that are new
  // during a capture, or when the memory is full, share one array, which each such call writes.
  [[nodiscard]] BatchPointers of(const Matrix& c, const Matrix& a, const Matrix& b,
                                 cudaStream_t stream);

 private:
  using Addresses = std::array<const void*, 3>;

  Array memory_;  // [calls, 3, batch0 batch1] addresses, padded
  std::vector<Addresses> written_;
};

}  // namespace paceline
