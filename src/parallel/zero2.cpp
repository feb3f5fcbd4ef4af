#include "parallel/zero2.h"

#include <utility>

#include "core/error.h"

namespace paceline {

Zero2::Zero2(ParameterStore& store, Ops& ops, Communicator& communicator,
             const StrategyConfig& config)
    : Zero1(store, ops, communicator, config) {
  store.shard_gradients(window_room(config.strategy), communicator.rank());
}

void Zero2::begin_step() {
  Zero1::begin_step();
  scattered_.assign(ranges().size(), false);
  pending_.assign(ranges().size(), nullptr);
}

// Padding is part of the reduce_scatter and must be 0.
Parameter Zero2::acquire(ParameterId id, Pass pass) {
  Parameter p = Zero1::acquire(id, pass);
  if (pass == Pass::backward) {
    const Tensor padding = store_.gradient_padding(id);
    if (!padding.empty()) ops_.fill(padding, 0);
  }
  return p;
}

// Groups that share a place in the window were scattered in the store's order, so that waiting for
// the last one is enough.
void Zero2::wait_until_read(const StoreRange& range) {
  std::size_t group = 0;
  while (ranges()[group].offset != range.offset) ++group;
  if (!scattered_[group])
    throw InternalError("gradients would overwrite others that are not scattered yet");
  if (EventPtr end = std::exchange(pending_[group], nullptr)) {
    wait_for(end, "the scatter of " + ranges()[group].name);
  }
}

void Zero2::reduce(const GradientRange& range, const Tensor& gradients) {
  if (const auto before = store_.shard_overwritten_by(range)) {
    wait_for_update(communicator_.stream(), *before);
  }
  Zero1::reduce(range, gradients);
  const std::size_t group = group_of(range.first);
  scattered_[group] = true;
  pending_[group] = exchanges().back().end;
}

void Zero2::visit_gradients(const Visit& visit) {
  if (store_.gradients(shard_of(ranges().front())).empty()) return;
  for (const GradientRange& range : ranges()) {
    communication_follows_compute();
    const Tensor whole = store_.written_gradients(range);
    communicator_.all_gather(whole, store_.gradients(shard_of(range)));
    communicator_.stream().synchronize();
    visit(range, whole);
  }
}

}  // namespace paceline
