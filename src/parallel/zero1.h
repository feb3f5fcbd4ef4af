#pragma once
#include <vector>

#include "parallel/gradient_exchange.h"

namespace paceline {

// Rajbhandari et al., arXiv:1910.02054, stage 1. Rank r's shard is the r-th of equal slices of
// every group of the store (a bucket). A step gathers what the last one has updated, group by group
// in the order in which forward reads them, beside forward; backward scatters gradients beside
// itself. Of a mixed precision the copies travel, and the masters of what is read in full
// precision; a rank's other masters are stale until all are visited.
class Zero1 : public GradientExchange {
 public:
  // The store must have been laid out for as many shards of its groups as there are ranks.
  Zero1(ParameterStore& store, Ops& ops, Communicator& communicator, const StrategyConfig& config);

  void begin_step() override;
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override;
  [[nodiscard]] Shard shard() const override;
  void visit_parameters(const Visit& visit) override { gather(store_.parameters(), visit); }
  void visit_gradients(const Visit& visit) override { gather(store_.gradients(), visit); }

 protected:
  [[nodiscard]] StoreRange shard_of(const StoreRange& group) const {
    return store_.shard_of(group, communicator_.rank());
  }
  [[nodiscard]] std::size_t group_of(ParameterId id) const { return groups_of_[id]; }
  // Gathers what is to be there before forward asks for it.
  virtual void gather_ahead();
  // After all that is enqueued on the compute stream. What is acquired of this group waits for it.
  void gather_group(std::size_t group, const Tensor& whole, const Tensor& shard,
                    Communicator& communicator);
  void reduce(const GradientRange& range, const Tensor& gradients) override;

 private:
  void gather(const Tensor& flat, const Visit& visit);

  std::vector<std::size_t> groups_of_;  // by parameter
  std::vector<EventPtr> gathered_;      // by group: its all_gather's end, until compute has waited
};

}  // namespace paceline
