#pragma once
// Inputs of a collective whose result is known element by element, and the comparison with it: no
// reference buffer is kept.

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device.h"
#include "experiments/collectives/collective.h"

namespace paceline {

struct CollectiveCheck {
  std::int64_t wrong = 0;      // elements of this rank
  double largest_error = 0;    // infinite where a NaN came out
  std::uint64_t checksum = 0;  // of the bits of recv
};

// The buffers of one call: in place, recv lies within send or send within recv.
class CollectiveBuffers {
 public:
  using Allocate = std::function<Array(const Shape& shape, Dtype dtype)>;

  // k: elements per rank; whole buffers have n k. The memory is the device's. Throws OutOfMemory.
  CollectiveBuffers(Device& device, const Allocate& allocate, const Collective& collective,
                    Dtype dtype, std::int64_t k, int rank, int ranks, bool in_place);

  [[nodiscard]] const CollectiveCall& call() const { return call_; }
  // One array, or two, of the same sizes on every rank.
  [[nodiscard]] std::vector<Array> memory() const;
  void set_reduction(ReduceOp reduction) { call_.reduction = reduction; }

  // What this rank sends, and NaN (int32: the lowest number) wherever a result is to come.
  void fill(const Pattern& pattern) const;
  // After the call has ended. Averages of n floating numbers may be off by (n + 2) / 2 units in the
  // last place, everything else is exact.
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
