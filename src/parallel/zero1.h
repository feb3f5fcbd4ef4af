#pragma once
#include <vector>

#include "parallel/gradient_exchange.h"

namespace paceline {

// Rajbhandari et al., arXiv:1910.02054, stage 1. Rank r's shard is the r-th of equal slices of
// every bucket. A step gathers what the last one has updated, bucket by bucket in the order in
// which forward reads them, beside forward; backward scatters gradients beside itself. Of a mixed
// precision the copies travel, and the masters of what is read in full precision; a rank's other
// masters are stale until gather().
class Zero1 final : public GradientExchange {
 public:
  // The store must have been laid out for as many shards as there are ranks.
  Zero1(ParameterStore& store, Ops& ops, Communicator& communicator, const StrategyConfig& config);

  void begin_step() override;
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override;
  [[nodiscard]] Shard shard() const override;
  void gather() override;

 private:
  void reduce(const GradientRange& range, const Tensor& gradients) override;
  [[nodiscard]] StoreRange slice_of(const GradientRange& range) const;

  std::vector<EventPtr> gathered_;  // by range: its all_gather's end, until forward has waited
};

}  // namespace paceline
