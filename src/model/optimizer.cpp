#include "model/optimizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"

namespace paceline {

namespace {

constexpr const char* m_name = "adam m";
constexpr const char* v_name = "adam v";
constexpr StoreRange everything{0, std::numeric_limits<std::int64_t>::max()};

std::vector<ParameterId> all_of(const ParameterStore& store) {
  std::vector<ParameterId> ids(store.entries().size());
  for (ParameterId id = 0; id < ids.size(); ++id) ids[id] = id;
  return ids;
}

// The index of each parameter's group, [entries of the store].
std::vector<std::size_t> group_of_each(const ParameterStore& store,
                                       const std::vector<ParameterGroup>& groups) {
  std::vector<std::size_t> group(store.entries().size(), groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const ParameterId id : groups[g].parameters) {
      if (std::exchange(group.at(id), g) != groups.size()) {
        throw InternalError("a parameter is in two groups");
      }
    }
  }
  if (std::find(group.begin(), group.end(), groups.size()) != group.end()) {
    throw InternalError("a parameter is in no group");
  }
  return group;
}

}  // namespace

AdamW::AdamW(ParameterStore& store, const AdamWConfig& config, Shard shard)
    : AdamW(store, std::vector<ParameterGroup>{{config, all_of(store)}}, std::move(shard)) {}

AdamW::AdamW(ParameterStore& store, const std::vector<ParameterGroup>& groups, Shard shard)
    : store_(store), shard_(std::move(shard)) {
  for (const ParameterGroup& g : groups) groups_.push_back({.config = g.config, .parts = {}});
  const std::vector<std::size_t> group = group_of_each(store, groups);
  const std::vector<ParameterEntry>& entries = store.entries();
  for (const StoreRange& range : shard_.ranges) {
    const std::int64_t end = range.offset + range.length;
    // An entry extends to the next one, padding included; adjacent entries of a group make one
    // part.
    std::int64_t begin = range.offset;
    for (ParameterId id = 0; id < entries.size() && begin < end; ++id) {
      const bool last = id + 1 == entries.size();
      const std::int64_t reaches = last ? store.size() : entries[id + 1].offset;
      const bool goes_on = !last && group[id + 1] == group[id] && reaches < end;
      if (reaches <= begin || goes_on) continue;
      const std::int64_t length = std::min(end, reaches) - begin;
      groups_[group[id]].parts.push_back(
          {.store = {begin, length}, .state_offset = state_size_ + begin - range.offset});
      begin += length;
    }
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

void Optimizer::step(Ops& ops, const StepState& state) {
  allocate(ops.device());
  begin(ops, state);
  {
    const Scope scope(ops.device().scopes(), name(), {.bytes = update_bytes(everything)});
    update(ops, state, everything);
  }
  end(ops, state);
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
  ops.begin_optimizer_step(state, groups_.front().config);
}

void AdamW::update(Ops& ops, const StepState& state, const StoreRange& range) {
  for (const Group& group : groups_) {
    if (groups_.size() > 1) ops.begin_parameter_group(state, group.config);
    for (const Part& part : group.parts) {
      const StoreRange common = intersection(part.store, range);
      if (common.length == 0) continue;
      ops.adamw(arrays_of(part, common), state, group.config);
    }
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
  if (groups_.size() > 1) return std::nullopt;
  const Group& group = groups_.front();
  for (const Part& part : group.parts) {
    if (intersection(part.store, range).length < range.length) continue;
    return WeightUpdate{.range = arrays_of(part, range), .state = &state, .config = group.config};
  }
  return std::nullopt;
}

// Parameters, m and v are read and written, gradients are read, the low-precision copy is written.
double AdamW::update_bytes(const StoreRange& range) const {
  std::size_t bytes = 0;
  for (const Group& group : groups_) {
    for (const Part& part : group.parts) {
      const StoreRange common = intersection(part.store, range);
      if (common.length == 0) continue;
      bytes += 6 * store_.parameters(common).bytes() + store_.gradients(common).bytes();
      if (!store_.copy().empty()) bytes += store_.copy(common).bytes();
    }
  }
  return static_cast<double>(bytes);
}

double Sgd::update_bytes(const StoreRange& range) const {
  std::size_t bytes = 0;
  for (const StoreRange& mine : shard_.ranges) {
    const StoreRange common = intersection(mine, range);
    if (common.length == 0) continue;
    bytes += 2 * store_.parameters(common).bytes() + store_.gradients(common).bytes();
  }
  return static_cast<double>(bytes);
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
