#pragma once
// The collectives that are measured: one small struct each. Sizes are nccl-tests': the whole buffer
// of all_gather, reduce_scatter and all_to_all, what a rank holds of the others.

#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/communicator.h"

namespace paceline {

// What one call works on; with in_place the smaller of send and recv lies within the other.
struct CollectiveCall {
  Tensor recv;
  Tensor send;
  ReduceOp reduction = ReduceOp::sum;
};

// What the ranks send: small integers, of which every sum, product and maximum is exact in every
// dtype, and which repeat after a prime, so that no slice looks like another.
class Pattern {
 public:
  // salt: a check must not pass on the results of the one before.
  Pattern(int ranks, bool reduces, ReduceOp reduction, std::int64_t salt);

  [[nodiscard]] int ranks() const { return ranks_; }
  // How many ranks at most contribute to an element other than what changes nothing.
  [[nodiscard]] double terms() const {
    return std::ceil(static_cast<double>(ranks_) / static_cast<double>(stride_));
  }
  [[nodiscard]] double sent(int rank, std::int64_t i) const;
  // What every rank sends repeats after so many elements.
  [[nodiscard]] std::int64_t cycle() const;
  // What element i of all ranks reduces to.
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

// From algorithm to bus bandwidth.
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
  bool only_root = false;        // rank 0 alone has a result
  bool same_everywhere = false;  // all ranks' results are equal, bit for bit
  BusFactor bus;
  void (*start)(Communicator& communicator, const CollectiveCall& call);
  // Element i of rank's recv, of k elements per rank.
  double (*expected)(const Pattern& pattern, int rank, std::int64_t i, std::int64_t k);
};

[[nodiscard]] std::span<const Collective> collectives();
// Throws UsageError for an unknown name.
[[nodiscard]] const Collective& collective_named(std::string_view name);
// Of all.
[[nodiscard]] std::vector<std::string_view> collective_names();

}  // namespace paceline
