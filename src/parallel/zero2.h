#pragma once
#include <vector>

#include "parallel/zero1.h"

namespace paceline {

// Rajbhandari et al., arXiv:1910.02054, stage 2: zero1 that keeps only this rank's shard of the
// summed gradients. Gradients are written to a window of a few groups and scattered from there.
class Zero2 : public Zero1 {
 public:
  Zero2(ParameterStore& store, Ops& ops, Communicator& communicator, const StrategyConfig& config);

  void begin_step() override;
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override;
  void visit_gradients(const Visit& visit) override;

 private:
  void wait_until_read(const StoreRange& range) override;
  void reduce(const GradientRange& range, const Tensor& gradients) override;

  // By group, in this step.
  std::vector<bool> scattered_;
  std::vector<EventPtr> pending_;  // its scatter's end, until compute has waited for it
};

}  // namespace paceline
