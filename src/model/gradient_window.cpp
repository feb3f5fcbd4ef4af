#include "model/gradient_window.h"

#include <algorithm>
#include <utility>

namespace paceline {

GradientWindow::GradientWindow(std::vector<Group> groups, int room, std::int64_t store_size)
    : groups_(std::move(groups)) {
  std::int64_t all = 0;
  std::int64_t largest = 0;
  for (const Group& group : groups_) {
    if (group.stays) continue;
    all += group.range.length;
    largest = std::max(largest, group.range.length);
  }
  const std::int64_t window = std::min(all, room * largest);
  std::int64_t next = 0;
  std::int64_t behind = window;
  for (const Group& group : groups_) {
    if (!group.stays && next + group.range.length > window) next = 0;
    std::int64_t& offset = group.stays ? behind : next;
    offsets_.push_back(offset);
    offset += group.range.length;
  }
  offsets_.push_back(behind);
  size_ = behind + store_size - groups_.back().range.end();
}

std::size_t GradientWindow::index_of(std::int64_t offset) const {
  const auto behind =
      std::upper_bound(groups_.begin(), groups_.end(), offset,
                       [](std::int64_t o, const Group& group) { return o < group.range.end(); });
  return static_cast<std::size_t>(behind - groups_.begin());
}

std::int64_t GradientWindow::window_offset(std::int64_t offset) const {
  const std::size_t i = index_of(offset);
  const std::int64_t begin =
      i < groups_.size() ? groups_[i].range.offset : groups_.back().range.end();
  return offsets_[i] + offset - begin;
}

std::optional<StoreRange> GradientWindow::group_with(std::int64_t offset) const {
  const std::size_t i = index_of(offset);
  if (i == groups_.size()) return std::nullopt;
  return groups_[i].range;
}

std::optional<StoreRange> GradientWindow::overwritten_by(std::int64_t offset) const {
  const std::size_t i = index_of(offset);
  if (i == groups_.size()) return std::nullopt;
  const StoreRange window{offsets_[i], groups_[i].range.length};
  for (std::size_t other = i; other-- > 0;) {
    const StoreRange earlier{offsets_[other], groups_[other].range.length};
    if (intersection(window, earlier).length > 0) return groups_[other].range;
  }
  return std::nullopt;
}

}  // namespace paceline
