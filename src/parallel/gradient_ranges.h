#pragma once
// How a strategy of data parallelism cuts the gradients into ranges of the store, each of which one
// all_reduce exchanges.

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

// Buckets for reduce_scatter and all_gather among so many ranks, to which the store was laid out:
// their ends are rounded down to where every rank's slice has the alignment of entries, and none
// holds both what is read in full precision and what is not.
[[nodiscard]] std::vector<GradientRange> scatter_buckets(const ParameterStore& store,
                                                         double bucket_bytes,
                                                         std::size_t element_bytes, int shards);

}  // namespace paceline
