#pragma once
// The measured collectives, one struct each, with the check of their results. Sizes are defined as
// in nccl-tests: for all_gather, reduce_scatter and all_to_all the whole buffer [n k], for the
// others one rank's buffer.

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/communicator.h"
#include "core/device.h"

namespace paceline {

// The buffers of one call. In place, the smaller of send and recv is a slice of the larger.
struct CollectiveCall {
  Tensor recv;
  Tensor send;
  ReduceOp reduction = ReduceOp::sum;
};

// The values that ranks send: small integers, so that every sum, product and maximum is exact in
// every dtype. They repeat with a prime period, so that slices differ from one another.
class Pattern {
 public:
  // salt: differs from check to check, so that stale results of an earlier call do not pass.
  Pattern(int ranks, bool reduces, ReduceOp reduction, std::int64_t salt);

  [[nodiscard]] int ranks() const { return ranks_; }
  // The maximum number of ranks that contribute to an element; the others send the neutral element.
  [[nodiscard]] double terms() const {
    return std::ceil(static_cast<double>(ranks_) / static_cast<double>(stride_));
  }
  [[nodiscard]] double sent(int rank, std::int64_t i) const;
  // The period of sent() in i, in elements.
  [[nodiscard]] std::int64_t cycle() const;
  // The reduction of element i over all ranks.
  [[nodiscard]] double reduced(std::int64_t i) const {
    return reduced_[static_cast<std::size_t>(i) % reduced_.size()];
  }

 private:
  [[nodiscard]] bool contributes(int rank, std::int64_t i) const {
    return (rank + i) % stride_ == 0;
  }
  [[nodiscard]] double reduce(std::int64_t i) const;

  int ranks_;
  bool reduces_;
  ReduceOp reduction_;
  std::int64_t salt_;
  std::int64_t stride_;
  std::vector<double> reduced_;
};

// busbw = algbw of(n), as in nccl-tests; n: ranks.
struct BusFactor {
  std::string_view formula;
  double (*of)(double n);
};

struct Collective {
  std::string_view name;
  bool reduces = false;       // takes a reduction
  bool in_place = true;       // may run in place
  bool out_of_place = true;   // may run out of place
  bool send_is_whole = true;  // a rank sends [n k] (else [k]), where the whole buffer is [n k]
  bool recv_is_whole = true;
  bool only_root = false;        // only rank 0 has a result
  bool same_everywhere = false;  // the results of all ranks are bitwise equal
  BusFactor bus;
  void (*start)(Communicator& communicator, const CollectiveCall& call);
  // The expected element i of `rank`'s recv, for k elements per rank.
  double (*expected)(const Pattern& pattern, int rank, std::int64_t i, std::int64_t k);
};

[[nodiscard]] std::span<const Collective> collectives();
// Throws UsageError for an unknown name.
[[nodiscard]] const Collective& collective_named(std::string_view name);
// In the order of collectives().
[[nodiscard]] std::vector<std::string_view> collective_names();

// The expected value of each element is computed from its index, so that no reference buffer is
// needed.
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
