#include "parallel/optimizer_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "core/error.h"

namespace paceline {

namespace {

constexpr std::array<std::string_view, 3> names = {"none", "broadcast", "zero1"};

SyncConfig bucketed(SyncConfig config) {
  config.strategy = SyncStrategy::bucketed;
  return config;
}

}  // namespace

std::string_view name_of(ShardStrategy strategy) {
  return names.at(static_cast<std::size_t>(strategy));
}

ShardStrategy shard_strategy_named(std::string_view name) {
  const auto* const it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) throw InternalError(fmt::format("'{}' is no strategy", name));
  return static_cast<ShardStrategy>(it - names.begin());
}

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
                               const SyncConfig& config)
    : GradientSync(store, ops, communicator, bucketed(config)),
      owners_(owners_of(store.entries(), communicator.size())) {}

Shard OwnerBroadcast::shard() const {
  Shard shard;
  for (ParameterId id = 0; id < owners_.size(); ++id) {
    const ParameterEntry& entry = store_.entries()[id];
    if (owners_[id] != communicator_.rank()) continue;
    shard.ranges.push_back({entry.offset, entry.shape.numel()});
  }
  return shard;
}

Tensor OwnerBroadcast::read_by_forward(const ParameterEntry& entry) const {
  const bool copied = !store_.copy().empty() && !entry.full_precision;
  return (copied ? store_.copy() : store_.parameters()).slice(entry.offset, {entry.shape.numel()});
}

void OwnerBroadcast::updated() {
  communication_follows_compute();
  for (ParameterId id = 0; id < owners_.size(); ++id) {
    const ParameterEntry& entry = store_.entries()[id];
    const Tensor x = read_by_forward(entry);
    exchange("broadcast", entry.views.front().name, x,
             [&] { communicator_.broadcast(x, owners_[id]); });
  }
  wait_for(exchanges().back().end);
}

void OwnerBroadcast::gather() {
  Stream& stream = communicator_.stream();
  communication_follows_compute();
  for (ParameterId id = 0; id < owners_.size(); ++id) {
    const ParameterEntry& entry = store_.entries()[id];
    communicator_.broadcast(store_.parameters().slice(entry.offset, {entry.shape.numel()}),
                            owners_[id]);
  }
  stream.synchronize();
}

Zero1::Zero1(ParameterStore& store, Ops& ops, Communicator& communicator, const SyncConfig& config)
    : GradientSync(store, ops, communicator, bucketed(config),
                   scatter_buckets(store, config.bucket_bytes,
                                   size_of(ops.precision().communication), communicator.size())),
      gathered_(ranges().size()) {
  for (const GradientRange& range : ranges()) {
    if (range.length % (communicator.size() * ParameterStore::alignment) != 0) {
      throw InternalError("the store is laid out for another number of shards");
    }
  }
}

StoreRange Zero1::slice_of(const GradientRange& range) const {
  const std::int64_t length = range.length / communicator_.size();
  return {range.offset + communicator_.rank() * length, length};
}

Shard Zero1::shard() const {
  Shard shard;
  for (const GradientRange& range : ranges()) shard.ranges.push_back(slice_of(range));
  shard.agree = [this](const Tensor& found_inf) {
    if (exchanges().empty()) return;  // a rehearsal, in which no other rank takes part
    Stream& stream = communicator_.stream();
    stream.wait(ops_.device().compute_stream().record());
    communicator_.all_reduce(found_inf, found_inf, ReduceOp::max);
    ops_.device().compute_stream().wait(stream.record());
  };
  return shard;
}

void Zero1::all_gather(const GradientRange& range, const Tensor& flat) {
  const Tensor whole = StoreRange{range.offset, range.length}.of(flat);
  exchange("all_gather", range.name, whole,
           [&] { communicator_.all_gather(whole, slice_of(range).of(flat)); });
}

void Zero1::begin_step() {
  GradientSync::begin_step();
  communication_follows_compute();
  for (std::size_t i = ranges().size(); i-- > 0;) {
    const GradientRange& range = ranges()[i];
    const bool copied = !store_.copy().empty() && !store_.entries()[range.last].full_precision;
    all_gather(range, copied ? store_.copy() : store_.parameters());
    gathered_[i] = exchanges().back().end;
  }
  ops_.run_beside_collectives(true);
}

void Zero1::before_use(ParameterId parameter) {
  for (std::size_t i = 0; i < ranges().size(); ++i) {
    if (parameter < ranges()[i].first || parameter > ranges()[i].last) continue;
    if (gathered_[i]) wait_for(std::exchange(gathered_[i], nullptr));
  }
}

void Zero1::reduce(const GradientRange& range, const Tensor& gradients) {
  const Tensor mine = slice_of(range).of(store_.gradients());
  exchange("reduce_scatter", range.name, gradients,
           [&] { communicator_.reduce_scatter(mine, gradients, ReduceOp::sum); });
}

void Zero1::gather() {
  communication_follows_compute();
  for (const GradientRange& range : ranges()) {
    for (const Tensor& flat : {store_.parameters(), store_.gradients()}) {
      if (flat.empty()) continue;
      communicator_.all_gather(StoreRange{range.offset, range.length}.of(flat),
                               slice_of(range).of(flat));
    }
  }
  communicator_.stream().synchronize();
}

}  // namespace paceline
