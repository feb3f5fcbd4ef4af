#pragma once
// Ranges of a ParameterStore, and where their gradients are kept.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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

// Offsets of gradients in a buffer smaller than all of them. Groups of gradients are placed in it
// one after another, as in a ring buffer; a later group overwrites an earlier one.
class GradientWindow {
 public:
  struct Group {
    StoreRange range;
    bool stays;  // needed from the step's first gradient to its last: memory of its own
  };

  GradientWindow() = default;
  // groups: contiguous ranges that begin at the store's offset 0, in the order in which their
  // gradients are written and read. The shared part of the window has room for `room` times the
  // largest group. Groups that stay, and the rest of the store after the last group, have memory of
  // their own after it.
  GradientWindow(std::vector<Group> groups, int room, std::int64_t store_size);

  [[nodiscard]] bool empty() const { return groups_.empty(); }
  [[nodiscard]] std::int64_t size() const { return size_; }  // elements
  // Offset in the window of the element at `offset` of the store. A group is contiguous.
  [[nodiscard]] std::int64_t window_offset(std::int64_t offset) const;
  // The group of the element at `offset` of the store; none for elements after the last group.
  [[nodiscard]] std::optional<StoreRange> group_with(std::int64_t offset) const;
  // The latest earlier group whose memory this element's group overwrites, if any.
  [[nodiscard]] std::optional<StoreRange> overwritten_by(std::int64_t offset) const;

 private:
  [[nodiscard]] std::size_t index_of(std::int64_t offset) const;

  std::vector<Group> groups_;
  std::vector<std::int64_t> offsets_;  // in the window: of groups, then of the elements after them
  std::int64_t size_ = 0;
};

}  // namespace paceline
