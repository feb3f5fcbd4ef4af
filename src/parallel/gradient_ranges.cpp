#include "parallel/gradient_ranges.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline {

namespace {

std::vector<GradientRange> one_per_parameter(const std::vector<ParameterEntry>& entries) {
  std::vector<GradientRange> ranges;
  for (ParameterId id = 0; id < entries.size(); ++id) {
    for (const ParameterView& view : entries[id].views) {
      ranges.push_back({{entries[id].offset + view.offset, view.shape.numel()}, id, id, view.name});
    }
  }
  return ranges;
}

// Entries first ... last and the padding between them.
GradientRange range_of(const std::vector<ParameterEntry>& entries, ParameterId first,
                       ParameterId last) {
  const std::int64_t offset = entries[first].offset;
  const std::int64_t end = entries[last].offset + entries[last].shape.numel();
  const std::string& name = entries[first].views.front().name;
  return {{offset, end - offset},
          first,
          last,
          last == first ? name : fmt::format("{} + {}", name, last - first)};
}

std::vector<GradientRange> buckets(const std::vector<ParameterEntry>& entries, double bucket_bytes,
                                   std::size_t element_bytes) {
  const auto most_elements = static_cast<std::int64_t>(
      std::min(bucket_bytes / static_cast<double>(element_bytes), 0x1p62));
  std::vector<GradientRange> ranges;
  ParameterId first = 0;
  std::int64_t filled = 0;
  for (ParameterId id = 0; id < entries.size(); ++id) {
    const std::int64_t length = entries[id].shape.numel();
    const bool is_last = id + 1 == entries.size();
    const bool other_kind = entries[id].full_precision != entries[first].full_precision;
    if (id > first && (is_last || other_kind || filled + length > most_elements)) {
      ranges.push_back(range_of(entries, first, id - 1));
      first = id;
      filled = 0;
    }
    filled += length;
  }
  ranges.push_back(range_of(entries, first, entries.size() - 1));
  return ranges;
}

}  // namespace

std::vector<GradientRange> gradient_ranges(const std::vector<ParameterEntry>& entries,
                                           Strategy strategy, double bucket_bytes,
                                           std::size_t element_bytes) {
  if (entries.empty()) return {};
  switch (strategy) {
    case Strategy::none: return {};
    case Strategy::naive:
    case Strategy::overlap: return one_per_parameter(entries);
    case Strategy::flat: return {range_of(entries, 0, entries.size() - 1)};
    case Strategy::bucketed:
    case Strategy::owner_broadcast:
    case Strategy::zero1: break;
  }
  return buckets(entries, bucket_bytes, element_bytes);
}

std::vector<GradientRange> scatter_buckets(const ParameterStore& store, double bucket_bytes,
                                           std::size_t element_bytes, int shards) {
  const std::vector<ParameterEntry>& entries = store.entries();
  const std::int64_t unit = shards * ParameterStore::alignment;
  std::vector<GradientRange> ranges;
  std::int64_t end = store.size();
  std::vector<GradientRange> exact = buckets(entries, bucket_bytes, element_bytes);
  for (auto range = exact.rbegin(); range != exact.rend(); ++range) {
    range->offset -= range->offset % unit;
    range->length = end - range->offset;
    if (range->length == 0) continue;  // all of it lies in the unit where the next one begins
    end = range->offset;
    while (range->first > 0 &&
           entries[range->first - 1].offset + entries[range->first - 1].shape.numel() >
               range->offset) {
      --range->first;
    }
    ranges.push_back(std::move(*range));
  }
  std::reverse(ranges.begin(), ranges.end());
  return ranges;
}

}  // namespace paceline
