#include "model/optimizer.h"

#include <limits>

namespace paceline {

namespace {

constexpr const char* m_name = "adam m";
constexpr const char* v_name = "adam v";
constexpr StoreRange everything{0, std::numeric_limits<std::int64_t>::max()};

}  // namespace

void Optimizer::step(Ops& ops, const StepState& state) {
  allocate(ops.device());
  begin(ops, state);
  {
    const Scope scope(ops.device().scopes(), name(), {.bytes = update_bytes(everything)});
    update(ops, state, everything);
  }
  end(ops, state);
}

// Gradients are read, the low-precision copy is written.
double Optimizer::update_bytes(const StoreRange& range) const {
  std::size_t bytes = 0;
  for (const StoreRange& mine : shard_.ranges) {
    const StoreRange common = intersection(mine, range);
    if (common.length == 0) continue;
    bytes += accesses_ * store_.parameters(common).bytes() + store_.gradients(common).bytes();
    if (!store_.copy().empty()) bytes += store_.copy(common).bytes();
  }
  return static_cast<double>(bytes);
}

AdamW::AdamW(ParameterStore& store, const AdamWConfig& config, Shard shard)
    : Optimizer(store, std::move(shard), 6), config_(config) {
  for (const StoreRange& range : shard_.ranges) {
    parts_.push_back({range, state_size_});
    state_size_ += range.length;
  }
}

void AdamW::reset(Device& device) {
  if (m_.empty()) return;
  device.zero(m_);
  device.zero(v_);
}

std::vector<StoreArray> AdamW::flat_state() const {
  if (m_.empty() || state_size_ != store_.size()) return {};
  return {{m_name, MemoryKind::optimizer_state, m_}, {v_name, MemoryKind::optimizer_state, v_}};
}

void AdamW::allocate(Device& device) {
  if (!m_.empty() || state_size_ == 0) return;
  const auto array = [&](const char* name) {
    const Scope scope(device.scopes(), name);
    return device.allocate({state_size_}, store_.parameters().dtype, MemoryKind::optimizer_state);
  };
  m_ = array(m_name);
  v_ = array(v_name);
  reset(device);
}

void AdamW::begin(Ops& ops, const StepState& state) {
  if (ops.precision().loss_scaling) {
    if (shard_.agree) {
      for (const StoreRange& range : shard_.ranges) {
        ops.check_finite(state, store_.gradients(range));
      }
      shard_.agree(state.scalar(StepScalar::found_inf));
    } else {
      ops.check_finite(state, store_.gradients());
    }
  }
  ops.begin_optimizer_step(state, config_);
}

void AdamW::update(Ops& ops, const StepState& state, const StoreRange& range) {
  for (const Part& part : parts_) {
    const StoreRange common = intersection(part.store, range);
    if (common.length > 0) ops.adamw(arrays_of(part, common), state, config_);
  }
}

AdamWRange AdamW::arrays_of(const Part& part, const StoreRange& range) const {
  const StoreRange within_state{part.state_offset + range.offset - part.store.offset, range.length};
  return {.parameters = store_.parameters(range),
          .gradients = store_.gradients(range),
          .m = within_state.of(m_),
          .v = within_state.of(v_),
          .copy = store_.copy(range)};
}

std::optional<WeightUpdate> AdamW::weight_update(const StepState& state,
                                                 const StoreRange& range) const {
  for (const Part& part : parts_) {
    if (!part.store.contains(range)) continue;
    return WeightUpdate{.range = arrays_of(part, range), .state = &state, .config = config_};
  }
  return std::nullopt;
}

void Sgd::update(Ops& ops, const StepState& /*state*/, const StoreRange& range) {
  for (const StoreRange& mine : shard_.ranges) {
    const StoreRange common = intersection(mine, range);
    if (common.length == 0) continue;
    const Tensor parameters = store_.parameters(common);
    ops.sgd(parameters, store_.gradients(common), learning_rate_);
    if (!store_.copy().empty()) ops.cast(store_.copy(common), parameters);
  }
}

}  // namespace paceline
