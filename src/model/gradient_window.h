#pragma once
// GradientWindow: where gradients lie that share memory. Each group of them has a place in a window
// until another group takes it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/store_range.h"

namespace paceline {

class GradientWindow {
 public:
  struct Group {
    StoreRange range;
    bool stays;  // from the step's first gradient to its last: in a place of its own
  };

  GradientWindow() = default;
  // groups: from the store's begin on, side by side, in the order in which their gradients are
  // written and read. The window has room for `room` times the largest group. What of the store
  // lies behind the last group has places of its own, too.
  GradientWindow(std::vector<Group> groups, int room, std::int64_t store_size);

  [[nodiscard]] bool empty() const { return groups_.empty(); }
  [[nodiscard]] std::int64_t size() const { return size_; }  // elements
  // Of one element of the store. Elements of one group lie side by side.
  [[nodiscard]] std::int64_t place_of(std::int64_t offset) const;
  // Of an element that lies behind the groups: none.
  [[nodiscard]] std::optional<StoreRange> group_with(std::int64_t offset) const;
  // The last group that lay where this element's group is to lie.
  [[nodiscard]] std::optional<StoreRange> overwritten_by(std::int64_t offset) const;

 private:
  [[nodiscard]] std::size_t index_of(std::int64_t offset) const;

  std::vector<Group> groups_;
  std::vector<std::int64_t> places_;  // of groups; then of what lies behind them
  std::int64_t size_ = 0;
};

}  // namespace paceline
