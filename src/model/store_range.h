#pragma once
#include <algorithm>
#include <cstdint>

#include "core/tensor.h"

namespace paceline {

// A range of elements of a ParameterStore; offsets count the whole store, whatever a rank keeps.
struct StoreRange {
  std::int64_t offset = 0;
  std::int64_t length = 0;

  [[nodiscard]] std::int64_t end() const { return offset + length; }
  [[nodiscard]] bool contains(const StoreRange& other) const {
    return offset <= other.offset && other.end() <= end();
  }
  [[nodiscard]] Tensor of(const Tensor& flat) const {
    return flat.empty() ? flat : flat.slice(offset, {length});
  }
};

// The intersection of two ranges; its length is 0 if they are disjoint.
[[nodiscard]] inline StoreRange intersection(const StoreRange& a, const StoreRange& b) {
  const std::int64_t begin = std::max(a.offset, b.offset);
  return {begin, std::max<std::int64_t>(0, std::min(a.end(), b.end()) - begin)};
}

}  // namespace paceline
