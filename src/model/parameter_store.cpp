#include "model/parameter_store.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace paceline {

namespace {

constexpr const char* values_name = "parameters";
constexpr const char* copy_name = "low-precision copy";
constexpr const char* gradients_name = "gradients";

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace

ParameterStore::ParameterStore(Device& device, const Precision& precision,
                               std::vector<ParameterEntry> entries, StoreLayout layout)
    : device_(device),
      precision_(precision),
      layout_(std::move(layout)),
      entries_(std::move(entries)),
      written_(entries_.size(), 0) {
  StoreRange group;
  for (ParameterId id = 0; id < entries_.size(); ++id) {
    ParameterEntry& entry = entries_[id];
    entry.offset = group.end();
    std::int64_t within = 0;
    for (ParameterView& view : entry.views) {
      view.offset = within;
      within += view.shape.numel();
    }
    if (within != entry.shape.numel()) throw InternalError("an entry's views do not fill it");
    group.length += rounded_up(within, alignment);
    const bool ends_group =
        id + 1 == entries_.size() || entries_[id + 1].full_precision != entry.full_precision ||
        std::binary_search(layout_.group_ends.begin(), layout_.group_ends.end(), id);
    if (!ends_group) continue;
    group.length = rounded_up(group.length, layout_.shards * alignment);
    groups_.push_back(group);
    group = {group.end(), 0};
  }
  size_ = group.offset;
  const std::int64_t kept = layout_.kept_shard ? size_ / layout_.shards : size_;
  values_ = allocate(kept, precision_.parameters, MemoryKind::parameter, values_name);
  if (precision.mixed() && !layout_.kept_shard) {
    copy_ = allocate(kept, precision.compute, MemoryKind::parameter, copy_name);
  }
  unrounded_from_ = first_unrounded();
}

// GEMMs write rounded gradients only for entries that read the copy and are used once: a tied
// weight's gradients are summed before they are rounded.
std::int64_t ParameterStore::first_unrounded() const {
  if (precision_.communication == precision_.gradients) return size_;
  if (precision_.communication != precision_.compute) return 0;
  const auto first = std::find_if(entries_.begin(), entries_.end(), [](const ParameterEntry& e) {
    return e.full_precision || e.uses > 1;
  });
  return first == entries_.end() ? size_ : first->offset;
}

// All elements 0.
Array ParameterStore::allocate(std::int64_t length, Dtype dtype, MemoryKind kind,
                               std::string_view scope) const {
  const Scope scope_of_all(device_.scopes(), scope);
  Array array = layout_.allocate ? layout_.allocate({length}, dtype, kind)
                                 : device_.allocate({length}, dtype, kind);
  device_.zero(array);
  return array;
}

StoreRange ParameterStore::shard_of(const StoreRange& group, int rank) const {
  const std::int64_t length = group.length / layout_.shards;
  return {group.offset + rank * length, length};
}

std::vector<StoreRange> ParameterStore::kept() const {
  if (!layout_.kept_shard) return {{0, size_}};
  std::vector<StoreRange> shards;
  for (const StoreRange& group : groups_) shards.push_back(shard_of(group, *layout_.kept_shard));
  return shards;
}

StoreRange ParameterStore::within_shards(const StoreRange& range, int rank) const {
  const auto group =
      std::upper_bound(groups_.begin(), groups_.end(), range.offset,
                       [](std::int64_t o, const StoreRange& g) { return o < g.end(); });
  if (group == groups_.end() || !shard_of(*group, rank).contains(range)) {
    throw InternalError("the range is not within this rank's shard of one group");
  }
  const std::int64_t within = range.offset - shard_of(*group, rank).offset;
  return {group->offset / layout_.shards + within, range.length};
}

void ParameterStore::allocate_gradients() {
  if (has_gradients()) return;
  const auto exchanged = [&](std::int64_t length, std::string_view name) {
    return allocate(length, precision_.communication, MemoryKind::gradient, name);
  };
  if (has_window()) window_ = exchanged(window_layout_.size(), "window of gradients");
  if (gradient_shard_) {
    const std::int64_t shard = size_ / layout_.shards;
    gradients_ = exchanged(shard_window_layout_.empty() ? shard : shard_window_layout_.size(),
                           gradients_name);
  } else if (!has_window()) {
    gradients_ = exchanged(size_, gradients_name);
  }
  if (unrounded_from_ == size_) return;
  const Scope scope(device_.scopes(), "unrounded gradients");
  unrounded_ =
      device_.allocate({rounds_in_window() ? window_layout_.size() : size_ - unrounded_from_},
                       precision_.gradients, MemoryKind::gradient);
  device_.zero(unrounded_);
}

Tensor ParameterStore::unrounded(const StoreRange& range) const {
  const std::int64_t place = rounds_in_window() ? window_layout_.window_offset(range.offset)
                                                : range.offset - unrounded_from_;
  return StoreRange{place, range.length}.of(unrounded_);
}

void ParameterStore::recycle_gradients(int room) {
  if (unrounded_from_ != size_) throw InternalError("rounded gradients cannot be recycled");
  std::vector<StoreRange> groups;
  for (ParameterId id = 0; id < entries_.size() && !entries_[id].full_precision; ++id) {
    groups.push_back({entries_[id].offset, padding_behind(id).end() - entries_[id].offset});
  }
  write_gradients_to_window(groups, room);
}

void ParameterStore::shard_gradients(int room, int rank) {
  gradient_shard_ = rank;
  write_gradients_to_window(groups_, room);
}

void ParameterStore::recycle_shards(int room) {
  if (has_gradients()) throw InternalError("gradients are allocated already");
  std::vector<GradientWindow::Group> placed;
  for (const StoreRange& g : groups_) {
    placed.push_back({{g.offset / layout_.shards, g.length / layout_.shards}, stays(g)});
  }
  shard_window_layout_ = GradientWindow(std::move(placed), room, size_ / layout_.shards);
}

// A tied weight's gradient is needed from its first use to its last, and that of a group of norms
// from the last layer to the first.
bool ParameterStore::stays(const StoreRange& group) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const ParameterEntry& e) {
    return (e.uses > 1 || e.full_precision) && intersection(e.range(), group).length > 0;
  });
}

void ParameterStore::write_gradients_to_window(const std::vector<StoreRange>& groups, int room) {
  if (has_gradients()) throw InternalError("gradients are allocated already");
  std::vector<GradientWindow::Group> placed;
  for (const StoreRange& group : groups) placed.push_back({group, stays(group)});
  window_layout_ = GradientWindow(std::move(placed), room, size_);
}

std::optional<StoreRange> ParameterStore::overwritten_by(ParameterId id) const {
  return has_window() ? window_layout_.overwritten_by(entries_[id].offset) : std::nullopt;
}

std::optional<StoreRange> ParameterStore::shard_overwritten_by(const StoreRange& group) const {
  if (shard_window_layout_.empty()) return std::nullopt;
  const auto before = shard_window_layout_.overwritten_by(group.offset / layout_.shards);
  if (!before) return std::nullopt;
  return StoreRange{before->offset * layout_.shards, before->length * layout_.shards};
}

const Tensor& ParameterStore::gradients() const {
  if (has_window()) throw InternalError("a window of gradients has no flat array of all");
  return gradients_;
}

Tensor ParameterStore::written_gradients(const StoreRange& group) const {
  if (!has_window()) return group.of(gradients_);
  return StoreRange{window_layout_.window_offset(group.offset), group.length}.of(window_);
}

Tensor ParameterStore::gradients(const StoreRange& range) const {
  if (gradient_shard_) {
    StoreRange place = within_shards(range, *gradient_shard_);
    if (!shard_window_layout_.empty())
      place.offset = shard_window_layout_.window_offset(place.offset);
    return place.of(gradients_);
  }
  if (has_window()) {
    const auto group = window_layout_.group_with(range.offset);
    if (group && !group->contains(range))
      throw InternalError("gradients of several groups are not contiguous in the window");
  }
  return written_gradients(range);
}

Tensor ParameterStore::parameters(const StoreRange& range) const {
  return (layout_.kept_shard ? within_shards(range, *layout_.kept_shard) : range).of(values_);
}

std::vector<StoreArray> ParameterStore::flat_arrays() const {
  std::vector<StoreArray> arrays;
  if (!layout_.kept_shard) {
    arrays.push_back({values_name, MemoryKind::parameter, values_});
    if (!copy_.empty()) arrays.push_back({copy_name, MemoryKind::parameter, copy_});
  }
  if (has_gradients() && !has_window()) {
    arrays.push_back({gradients_name, MemoryKind::gradient, gradients_});
  }
  return arrays;
}

StoreRange ParameterStore::padding_behind(ParameterId id) const {
  const std::int64_t end = entries_[id].offset + entries_[id].shape.numel();
  return {end, (id + 1 < entries_.size() ? entries_[id + 1].offset : size_) - end};
}

Tensor ParameterStore::gradient_padding(ParameterId id) const {
  const StoreRange padding = padding_behind(id);
  if (padding.length == 0) return {};
  return entries_[id].offset >= unrounded_from_ ? unrounded(padding) : written_gradients(padding);
}

Parameter ParameterStore::parameter(ParameterId id) const {
  const ParameterEntry& entry = entries_.at(id);
  Parameter p{.value = {}, .compute = {}, .gradient = {}, .accumulate = written_.at(id) > 0};
  if (!layout_.kept_shard) {
    p.value = values_.tensor().slice(entry.offset, entry.shape);
    p.compute = copy_.empty() ? p.value : copy_.tensor().slice(entry.offset, entry.shape);
  }
  if (!has_gradients()) return p;
  const bool beside = entry.offset >= unrounded_from_;
  const StoreRange range = entry.range();
  p.gradient = (beside ? unrounded(range) : written_gradients(range)).reshape(entry.shape);
  return p;
}

void ParameterStore::begin_backward() { written_.assign(entries_.size(), 0); }

bool ParameterStore::gradient_written(ParameterId id) {
  return ++written_.at(id) == entries_.at(id).uses;
}

void ParameterStore::round_gradients(Ops& ops, const StoreRange& range) const {
  const std::int64_t begin = std::max(range.offset, unrounded_from_);
  const std::int64_t length = range.offset + range.length - begin;
  if (length <= 0) return;
  ops.cast(written_gradients({begin, length}), unrounded({begin, length}));
}

void ParameterStore::refresh_copy(Ops& ops) const {
  if (!copy_.empty()) ops.cast(copy_, values_);
}

}  // namespace paceline
