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

// Entries first to last and the padding between them.
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
  const auto max_elements = static_cast<std::int64_t>(
      std::min(bucket_bytes / static_cast<double>(element_bytes), 0x1p62));
  std::vector<GradientRange> ranges;
  ParameterId first = 0;
  std::int64_t filled = 0;
  for (ParameterId id = 0; id < entries.size(); ++id) {
    const std::int64_t length = entries[id].shape.numel();
    const bool is_last = id + 1 == entries.size();
    const bool other_kind = entries[id].full_precision != entries[first].full_precision;
    if (id > first && (is_last || other_kind || filled + length > max_elements)) {
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
    case Strategy::zero1:
    case Strategy::zero2:
    case Strategy::fsdp: break;
  }
  return buckets(entries, bucket_bytes, element_bytes);
}

std::vector<ParameterId> group_ends(const std::vector<ParameterEntry>& entries, Strategy strategy,
                                    double bucket_bytes, std::size_t element_bytes) {
  std::vector<ParameterId> ends;
  if (strategy != Strategy::fsdp) {
    for (const GradientRange& bucket : buckets(entries, bucket_bytes, element_bytes)) {
      ends.push_back(bucket.last);
    }
    return ends;
  }
  for (ParameterId id = 0; id < entries.size(); ++id) {
    if (id + 1 == entries.size() || entries[id + 1].unit != entries[id].unit) ends.push_back(id);
  }
  return ends;
}

std::vector<GradientRange> group_ranges(const ParameterStore& store, Strategy strategy) {
  const std::vector<ParameterEntry>& entries = store.entries();
  std::vector<GradientRange> ranges;
  ParameterId first = 0;
  for (const StoreRange& group : store.groups()) {
    ParameterId last = first;
    while (last + 1 < entries.size() && entries[last + 1].offset < group.end()) ++last;
    ranges.push_back(range_of(entries, first, last));
    ranges.back().length = group.length;
    if (strategy == Strategy::fsdp) ranges.back().name = entries[first].unit;
    first = last + 1;
  }
  return ranges;
}

}  // namespace paceline
