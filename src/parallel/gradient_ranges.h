#pragma once
// The partition of the store into ranges by a strategy of data parallelism; one collective per
// range.

#include <cstdint>
#include <string>
#include <vector>

#include "model/parameter_store.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

struct GradientRange : StoreRange {
  ParameterId first = 0;  // the range has the gradients, or a part, of entries first to last
  ParameterId last = 0;
  std::string name;  // the first parameter and the number of the others: "lm_head.weight + 4"
};

// The ranges, in the order in which backward completes them. Buckets hold at most bucket_bytes of
// gradients of element_bytes each. A larger entry has a bucket of its own. So has the last entry,
// because backward completes its gradient last, and the other gradients need not wait for it. Empty
// for `none`.
[[nodiscard]] std::vector<GradientRange> gradient_ranges(const std::vector<ParameterEntry>& entries,
                                                         Strategy strategy, double bucket_bytes,
                                                         std::size_t element_bytes);

// The last entries of buckets, for fsdp of units: StoreLayout::group_ends of a store that is padded
// there so that all ranks' shards of a group have equal length.
[[nodiscard]] std::vector<ParameterId> group_ends(const std::vector<ParameterEntry>& entries,
                                                  Strategy strategy, double bucket_bytes,
                                                  std::size_t element_bytes);
// The groups of a store with their padding, for reduce_scatter and all_gather. For fsdp they have
// the units' names.
[[nodiscard]] std::vector<GradientRange> group_ranges(const ParameterStore& store,
                                                      Strategy strategy);

}  // namespace paceline
