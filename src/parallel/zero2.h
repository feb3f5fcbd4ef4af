#pragma once
#include <vector>

#include "parallel/zero1.h"

namespace paceline {

// ZeRO stage 2 (Rajbhandari et al., arXiv:1910.02054): zero1 that keeps only this rank's shard of
// the summed gradients. Backward writes gradients to a window of a few groups, from which they are
// reduce_scattered.
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
  std::vector<EventPtr> pending_;  // end of its reduce_scatter, until compute waits for it
};

}  // namespace paceline
