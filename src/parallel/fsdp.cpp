#include <algorithm>
#include <utility>

#include "core/error.h"
#include "parallel/optimizer_sharding.h"

namespace paceline {

Fsdp::Fsdp(ParameterStore& store, Ops& ops, Communicator& scatters, Communicator& gathers,
           const StrategyConfig& config)
    : Zero2(store, ops, scatters, config), gathers_(gathers), prefetch_(config.prefetch) {
  std::int64_t resident = 0;
  std::size_t in_slots = 0;
  for (std::size_t unit = 0; unit < ranges().size(); ++unit) {
    resident_offsets_.push_back(resident);
    const std::int64_t length = ranges()[unit].length;
    if (is_resident(unit)) {
      resident += length;
    } else {
      slot_length_ = std::max(slot_length_, length);
      ++in_slots;
    }
  }
  const std::size_t most = static_cast<std::size_t>(prefetch_) + 1;
  slots_.resize(config.reshard == Reshard::yes ? std::min(most, in_slots) : in_slots);
  const auto allocate = [&](std::int64_t length, Dtype dtype) {
    const Scope scope(ops.device().scopes(), "gathered parameters");
    return config.registered ? gathers.allocate({length}, dtype, MemoryKind::gathered)
                             : ops.device().allocate({length}, dtype, MemoryKind::gathered);
  };
  const Dtype masters = store.parameters().dtype;
  const auto slots = static_cast<std::int64_t>(slots_.size());
  if (resident > 0) resident_ = allocate(resident, masters);
  if (slots > 0) slot_memory_ = allocate(slots * slot_length_, ops.precision().compute);
}

bool Fsdp::is_resident(std::size_t unit) const {
  return store_.entries()[ranges()[unit].last].full_precision;
}

void Fsdp::register_memory() {
  register_with(communicator_, store_.gradient_arrays());
  register_with(gathers_, store_.parameter_arrays());
  register_with(gathers_, {resident_, slot_memory_});
}

Tensor Fsdp::place_of(std::size_t unit) {
  const std::int64_t length = ranges()[unit].length;
  if (is_resident(unit)) return StoreRange{resident_offsets_[unit], length}.of(resident_);
  const auto slot = static_cast<std::int64_t>(slot_with(unit) - slots_.data());
  return StoreRange{slot * slot_length_, length}.of(slot_memory_);
}

void Fsdp::gather_ahead() {
  schedule_ = std::exchange(uses_, {});
  std::fill(slots_.begin(), slots_.end(), Slot{});
  for (std::size_t unit = ranges().size(); unit-- > 0;) {
    if (is_resident(unit)) gather_unit(unit);
  }
  gather_units(units_from(0));
}

Parameter Fsdp::acquire(ParameterId id, Pass pass) {
  const std::size_t unit = group_of(id);
  if (!is_resident(unit)) {
    const Use use{unit, pass == Pass::forward};
    if (uses_.empty() || uses_.back() != use) begin_use(use);
    ++slot_with(unit)->in_use;
  }
  Parameter p = Zero2::acquire(id, pass);
  const ParameterEntry& entry = store_.entries()[id];
  p.compute = place_of(unit).slice(entry.offset - ranges()[unit].offset, entry.shape);
  if (p.compute.dtype == store_.parameters().dtype) p.value = p.compute;
  return p;
}

void Fsdp::release(ParameterId id, Pass /*pass*/) {
  const std::size_t unit = group_of(id);
  if (!is_resident(unit)) --slot_with(unit)->in_use;
}

void Fsdp::begin_use(const Use& use) {
  const std::size_t i = uses_.size();
  uses_.push_back(use);
  const bool as_before = i < schedule_.size() && schedule_[i] == use;
  gather_units(as_before ? units_from(i) : std::vector<std::size_t>{use.unit});
}

std::vector<std::size_t> Fsdp::units_from(std::size_t use) const {
  std::vector<std::size_t> units;
  const std::size_t most = static_cast<std::size_t>(prefetch_) + 1;
  for (std::size_t i = use; i < schedule_.size() && units.size() < most; ++i) {
    if (schedule_[i].in_forward != schedule_[use].in_forward) break;
    const bool again = std::find(units.begin(), units.end(), schedule_[i].unit) != units.end();
    if (!again) units.push_back(schedule_[i].unit);
  }
  return units;
}

void Fsdp::gather_units(const std::vector<std::size_t>& units) {
  for (const std::size_t unit : units) {
    if (slot_with(unit) != nullptr) continue;
    Slot* slot = free_slot(units);
    if (slot == nullptr && unit != units.front()) return;
    if (slot == nullptr) throw InternalError("more units are in use than slots exist");
    slot->unit = unit;
    gather_unit(unit);
  }
}

// The gather waits for the compute work enqueued so far, which may read the slot's previous unit.
// In mixed precision the shard is rounded into its place in the slot and gathered from there.
void Fsdp::gather_unit(std::size_t unit) {
  const Tensor whole = place_of(unit);
  Tensor shard = store_.parameters(shard_of(ranges()[unit]));
  if (whole.dtype != shard.dtype) {
    const Tensor rounded = whole.slice(gathers_.rank() * shard.numel(), shard.shape);
    ops_.cast(rounded, shard);
    shard = rounded;
  }
  gather_group(unit, whole, shard, gathers_);
}

Fsdp::Slot* Fsdp::slot_with(std::size_t unit) {
  const auto slot =
      std::find_if(slots_.begin(), slots_.end(), [unit](const Slot& s) { return s.unit == unit; });
  return slot == slots_.end() ? nullptr : &*slot;
}

Fsdp::Slot* Fsdp::free_slot(const std::vector<std::size_t>& needed) {
  const auto is_needed = [&](const Slot& slot) {
    return slot.in_use > 0 ||
           (slot.unit && std::find(needed.begin(), needed.end(), *slot.unit) != needed.end());
  };
  const auto empty = std::find_if(slots_.begin(), slots_.end(),
                                  [](const Slot& slot) { return !slot.unit.has_value(); });
  const auto slot =
      empty != slots_.end() ? empty : std::find_if_not(slots_.begin(), slots_.end(), is_needed);
  return slot == slots_.end() ? nullptr : &*slot;
}

void Fsdp::prepare_visits() {
  if (!visited_.empty()) return;
  std::int64_t most = 0;
  for (const GradientRange& range : ranges()) most = std::max(most, range.length);
  const Scope scope(ops_.device().scopes(), "a unit's masters");
  visited_ = ops_.device().allocate({most}, store_.parameters().dtype, MemoryKind::communication);
}

void Fsdp::visit_parameters(const Visit& visit) {
  prepare_visits();
  for (const GradientRange& range : ranges()) {
    gathers_.stream().follow(ops_.device().compute_stream());
    const Tensor whole = StoreRange{0, range.length}.of(visited_);
    gathers_.all_gather(whole, store_.parameters(shard_of(range)));
    gathers_.stream().synchronize();
    visit(range, whole);
  }
}

}  // namespace paceline
