#pragma once
// How a strategy of data parallelism cuts the store into ranges, each of which one collective
// exchanges.

#include <cstdint>
#include <string>
#include <vector>

#include "model/parameter_store.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

struct GradientRange : StoreRange {
  ParameterId first = 0;  // entries first ... last have all or part of their gradients in it
  ParameterId last = 0;
  std::string name;  // of its first parameter, and how many follow: "lm_head.weight + 4"
};

// In the order in which backward finishes them. Buckets hold at most bucket_bytes of gradients of
// element_bytes each; what is larger has a bucket of its own, and so has the last entry, whose
// gradient backward finishes last: it need not wait for others to be sent. No range for `none`.
[[nodiscard]] std::vector<GradientRange> gradient_ranges(const std::vector<ParameterEntry>& entries,
                                                         Strategy strategy, double bucket_bytes,
                                                         std::size_t element_bytes);

// The last entries of buckets, or of units, at which a store is to be padded
// (StoreLayout::group_ends) so that every rank's shard of each is as long as the others'.
[[nodiscard]] std::vector<ParameterId> bucket_ends(const std::vector<ParameterEntry>& entries,
                                                   double bucket_bytes, std::size_t element_bytes);
[[nodiscard]] std::vector<ParameterId> unit_ends(const std::vector<ParameterEntry>& entries);
// The groups of a store, padding included, for reduce_scatter and all_gather; fsdp's are named as
// the units that they are.
[[nodiscard]] std::vector<GradientRange> group_ranges(const ParameterStore& store,
                                                      Strategy strategy);

}  // namespace paceline
