#pragma once
// Inputs of a collective and the check of its results. The expected value of each element is
// computed from its index, so that no reference buffer is needed.

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device.h"
#include "experiments/collectives/collective.h"

namespace paceline {

struct CollectiveCheck {
  std::int64_t wrong = 0;      // wrong elements of this rank
  double largest_error = 0;    // absolute; infinite if a result is NaN
  std::uint64_t checksum = 0;  // FNV-1a of the bits of recv
};

// Allocates and checks the buffers of one call.
class CollectiveBuffers {
 public:
  using Allocate = std::function<Array(const Shape& shape, Dtype dtype)>;

  // k: elements per rank; whole buffers have ranks x k. `allocate` returns device memory. Throws
  // OutOfMemory.
  CollectiveBuffers(Device& device, const Allocate& allocate, const Collective& collective,
                    Dtype dtype, std::int64_t k, int rank, int ranks, bool in_place);

  [[nodiscard]] const CollectiveCall& call() const { return call_; }
  // The one (in place) or two allocated arrays, of the same sizes on every rank.
  [[nodiscard]] std::vector<Array> memory() const;
  void set_reduction(ReduceOp reduction) { call_.reduction = reduction; }

  // Writes this rank's values to send and NaN (int32: the lowest number) to the rest of recv.
  void fill(const Pattern& pattern) const;
  // After the call has finished. An average of n floating-point numbers may be off by (n + 2) / 2
  // units in the last place; every other result must be exact.
  [[nodiscard]] CollectiveCheck check(const Pattern& pattern) const;

 private:
  Device& device_;
  const Collective& collective_;
  std::int64_t k_;
  int rank_;
  Array recv_;
  Array send_;
  CollectiveCall call_;
};

}  // namespace paceline
