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
  const std::int64_t unit = layout_.shards * alignment;
  bool full_precision = false;
  for (ParameterEntry& entry : entries_) {
    if (entry.full_precision != full_precision) size_ = rounded_up(size_, unit);
    full_precision = entry.full_precision;
    entry.offset = size_;
    std::int64_t within = 0;
    for (ParameterView& view : entry.views) {
      view.offset = within;
      within += view.shape.numel();
    }
    if (within != entry.shape.numel()) throw InternalError("an entry's views do not fill it");
    size_ += rounded_up(within, alignment);
  }
  size_ = rounded_up(size_, unit);
  values_ = allocate(precision_.parameters, MemoryKind::parameter, values_name);
  if (precision.mixed()) {
    copy_ = allocate(precision.compute, MemoryKind::parameter, copy_name);
  }
  unrounded_from_ = first_unrounded();
}

// Products write the gradients of what reads the copy; a tied weight's are added up first.
std::int64_t ParameterStore::first_unrounded() const {
  if (precision_.communication == precision_.gradients) return size_;
  if (precision_.communication != precision_.compute) return 0;
  const auto first = std::find_if(entries_.begin(), entries_.end(), [](const ParameterEntry& e) {
    return e.full_precision || e.uses > 1;
  });
  return first == entries_.end() ? size_ : first->offset;
}

// Zeros.
Array ParameterStore::allocate(Dtype dtype, MemoryKind kind, std::string_view scope) const {
  const Scope scope_of_all(device_.scopes(), scope);
  Array array = layout_.allocate ? layout_.allocate({size_}, dtype, kind)
                                 : device_.allocate({size_}, dtype, kind);
  device_.zero(array);
  return array;
}

void ParameterStore::allocate_gradients() {
  if (!gradients_.empty()) return;
  gradients_ = allocate(precision_.communication, MemoryKind::gradient, gradients_name);
  if (unrounded_from_ == size_) return;
  const Scope scope(device_.scopes(), "unrounded gradients");
  unrounded_ =
      device_.allocate({size_ - unrounded_from_}, precision_.gradients, MemoryKind::gradient);
  device_.zero(unrounded_);
}

std::vector<StoreArray> ParameterStore::flat_arrays() const {
  std::vector<StoreArray> arrays = {{values_name, MemoryKind::parameter, values_}};
  if (!copy_.empty()) arrays.push_back({copy_name, MemoryKind::parameter, copy_});
  if (!gradients_.empty()) arrays.push_back({gradients_name, MemoryKind::gradient, gradients_});
  return arrays;
}

Parameter ParameterStore::parameter(ParameterId id) const {
  const ParameterEntry& entry = entries_.at(id);
  const auto part = [&](const Array& flat, std::int64_t from = 0) {
    return flat.empty() ? Tensor{} : flat.tensor().slice(entry.offset - from, entry.shape);
  };
  const bool beside = entry.offset >= unrounded_from_;
  return {.value = part(values_),
          .compute = part(copy_.empty() ? values_ : copy_),
          .gradient = beside ? part(unrounded_, unrounded_from_) : part(gradients_),
          .accumulate = written_.at(id) > 0};
}

Tensor ParameterStore::slice(const Tensor& flat, const ParameterEntry& entry,
                             const ParameterView& view) const {
  return flat.slice(entry.offset + view.offset, view.shape);
}

void ParameterStore::begin_backward() { written_.assign(entries_.size(), 0); }

bool ParameterStore::gradient_written(ParameterId id) {
  return ++written_.at(id) == entries_.at(id).uses;
}

void ParameterStore::round_gradients(Ops& ops, const StoreRange& range) const {
  const std::int64_t begin = std::max(range.offset, unrounded_from_);
  const std::int64_t length = range.offset + range.length - begin;
  if (length <= 0) return;
  ops.cast(StoreRange{begin, length}.of(gradients_),
           StoreRange{begin - unrounded_from_, length}.of(unrounded_));
}

void ParameterStore::refresh_copy(Ops& ops) const {
  if (!copy_.empty()) ops.cast(copy_, values_);
}

}  // namespace paceline
