#include "model/parameter_store.h"

#include <vector>

#include "core/error.h"

namespace paceline {

namespace {

// 256 bytes of the smallest dtype.
constexpr std::int64_t alignment = 128;

std::int64_t padded(std::int64_t n) { return (n + alignment - 1) / alignment * alignment; }

}  // namespace

ParameterStore::ParameterStore(Device& device, const Precision& precision,
                               std::vector<ParameterEntry> entries)
    : device_(device),
      precision_(precision),
      entries_(std::move(entries)),
      written_(entries_.size(), 0) {
  for (ParameterEntry& entry : entries_) {
    entry.offset = size_;
    std::int64_t within = 0;
    for (ParameterView& view : entry.views) {
      view.offset = within;
      within += view.shape.numel();
    }
    if (within != entry.shape.numel()) throw InternalError("an entry's views do not fill it");
    size_ += padded(within);
  }
  values_ = allocate_zeroed(MemoryKind::parameter, "parameters");
  if (precision.mixed()) {
    const Scope scope(device.scopes(), "low-precision copy");
    copy_ = device.allocate({size_}, precision.compute, MemoryKind::parameter);
  }
}

Array ParameterStore::allocate_zeroed(MemoryKind kind, std::string_view scope) const {
  const Scope scope_of_all(device_.scopes(), scope);
  const Dtype dtype = precision_.parameters;
  Array array = device_.allocate({size_}, dtype, kind);
  device_.zero(array);
  return array;
}

void ParameterStore::allocate_gradients() {
  if (gradients_.empty()) gradients_ = allocate_zeroed(MemoryKind::gradient, "gradients");
}

void ParameterStore::allocate_optimizer_state() {
  if (!m_.empty()) return;
  m_ = allocate_zeroed(MemoryKind::optimizer_state, "adam m");
  v_ = allocate_zeroed(MemoryKind::optimizer_state, "adam v");
}

void ParameterStore::reset_optimizer_state() const {
  for (const Array* state : {&m_, &v_}) {
    if (!state->empty()) device_.zero(*state);
  }
}

AdamWRange ParameterStore::range() const {
  return {.parameters = values_, .gradients = gradients_, .m = m_, .v = v_, .copy = copy_};
}

Parameter ParameterStore::parameter(ParameterId id) const {
  const ParameterEntry& entry = entries_.at(id);
  const auto part = [&](const Array& flat) {
    return flat.empty() ? Tensor{} : flat.tensor().slice(entry.offset, entry.shape);
  };
  return {.value = part(values_),
          .compute = part(copy_.empty() ? values_ : copy_),
          .gradient = part(gradients_),
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

void ParameterStore::refresh_copy(Ops& ops) const {
  if (!copy_.empty()) ops.cast(copy_, values_);
}

}  // namespace paceline
