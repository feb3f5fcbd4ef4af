#pragma once
#include <vector>

#include "parallel/gradient_exchange.h"

namespace paceline {

// The owner of each entry, by LPT scheduling: entries in order of decreasing size, each to the rank
// with the fewest elements so far (the lowest such rank).
[[nodiscard]] std::vector<int> owners_of(const std::vector<ParameterEntry>& entries, int ranks);

// The course's design: gradients are all_reduced in buckets during backward; after the optimizer
// step every tensor is broadcast by its owner.
class OwnerBroadcast final : public GradientExchange {
 public:
  OwnerBroadcast(ParameterStore& store, Ops& ops, Communicator& communicator,
                 const StrategyConfig& config);

  void updated() override;
  [[nodiscard]] Shard shard() const override;
  void visit_parameters(const Visit& visit) override;

 private:
  std::vector<int> owners_;  // by entry
};

}  // namespace paceline
