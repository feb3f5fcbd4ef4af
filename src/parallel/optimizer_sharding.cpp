#include "parallel/optimizer_sharding.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace paceline {

std::vector<int> owners_of(const std::vector<ParameterEntry>& entries, int ranks) {
  std::vector<std::size_t> by_size(entries.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return entries[a].shape.numel() > entries[b].shape.numel();
  });
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks), 0);
  std::vector<int> owners(entries.size());
  for (const std::size_t id : by_size) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += entries[id].shape.numel();
    owners[id] = static_cast<int>(least - load.begin());
  }
  return owners;
}

OwnerBroadcast::OwnerBroadcast(ParameterStore& store, Ops& ops, Communicator& communicator,
                               const StrategyConfig& config)
    : GradientExchange(store, ops, communicator, config),
      owners_(owners_of(store.entries(), communicator.size())) {}

Shard OwnerBroadcast::shard() const {
  Shard shard;
  for (ParameterId id = 0; id < owners_.size(); ++id) {
    if (owners_[id] == communicator_.rank()) shard.ranges.push_back(store_.entries()[id].range());
  }
  return shard;
}

void OwnerBroadcast::updated() {
  communication_follows_compute();
  for (ParameterId id = 0; id < owners_.size(); ++id) {
    const ParameterEntry& entry = store_.entries()[id];
    const Tensor x = entry.range().of(read_by_forward(entry));
    exchange(communicator_.stream(), "broadcast", entry.views.front().name, x,
             [&] { communicator_.broadcast(x, owners_[id]); });
  }
  wait_for(exchanges().back().end, "the owners' parameters");
}

void OwnerBroadcast::visit_parameters(const Visit& visit) {
  communication_follows_compute();
  for (ParameterId id = 0; id < owners_.size(); ++id) {
    communicator_.broadcast(store_.entries()[id].range().of(store_.parameters()), owners_[id]);
  }
  visit_whole(store_.parameters(), visit);
}

Zero1::Zero1(ParameterStore& store, Ops& ops, Communicator& communicator,
             const StrategyConfig& config)
    : GradientExchange(store, ops, communicator, config, group_ranges(store, config.strategy)),
      gathered_(ranges().size()) {
  for (std::size_t group = 0; group < ranges().size(); ++group) {
    const GradientRange& range = ranges()[group];
    if (shard_of(range).length * communicator.size() != range.length) {
      throw InternalError("the store was laid out for another number of shards");
    }
    groups_of_.resize(range.last + 1, group);
  }
}

Shard Zero1::shard() const {
  Shard shard;
  for (const GradientRange& range : ranges()) shard.ranges.push_back(shard_of(range));
  shard.agree = [this](const Tensor& found_inf) {
    Stream& stream = communicator_.stream();
    Stream& compute = ops_.device().compute_stream();
    stream.follow(compute);
    communicator_.all_reduce(found_inf, found_inf, ReduceOp::max);
    compute.follow(stream);
  };
  return shard;
}

void Zero1::begin_step() {
  GradientExchange::begin_step();
  gather_ahead();
  ops_.run_beside_collectives(true);
}

void Zero1::gather_ahead() {
  for (std::size_t i = ranges().size(); i-- > 0;) {
    const GradientRange& range = ranges()[i];
    const Tensor& flat = read_by_forward(store_.entries()[range.last]);
    gather_group(i, range.of(flat), shard_of(range).of(flat), communicator_);
  }
}

void Zero1::gather_group(std::size_t group, const Tensor& whole, const Tensor& shard,
                         Communicator& communicator) {
  communicator.stream().follow(ops_.device().compute_stream());
  exchange(communicator.stream(), "all_gather", ranges()[group].name, whole,
           [&] { communicator.all_gather(whole, shard); });
  gathered_[group] = exchanges().back().end;
}

Parameter Zero1::acquire(ParameterId id, Pass pass) {
  const std::size_t group = group_of(id);
  if (EventPtr end = std::exchange(gathered_[group], nullptr)) wait_for(end, ranges()[group].name);
  return GradientExchange::acquire(id, pass);
}

void Zero1::reduce(const GradientRange& range, const Tensor& gradients) {
  const Tensor mine = store_.gradients(shard_of(range));
  exchange(communicator_.stream(), "reduce_scatter", range.name, gradients,
           [&] { communicator_.reduce_scatter(mine, gradients, ReduceOp::sum); });
}

void Zero1::gather(const Tensor& flat, const Visit& visit) {
  if (flat.empty()) return;
  communication_follows_compute();
  for (const GradientRange& range : ranges()) {
    communicator_.all_gather(range.of(flat), shard_of(range).of(flat));
  }
  visit_whole(flat, visit);
}

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
