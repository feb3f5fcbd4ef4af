#include "parallel/owner_broadcast.h"

#include <algorithm>
#include <numeric>

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

}  // namespace paceline
