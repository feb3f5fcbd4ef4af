#include "parallel/parallel_strategy.h"

#include "parallel/optimizer_sharding.h"

namespace paceline {

std::unique_ptr<ParallelStrategy> make_strategy(const StrategyConfig& config, ParameterStore& store,
                                                Ops& ops, Communicator* communicator,
                                                Communicator* gathers) {
  switch (config.strategy) {
    case Strategy::none: return std::make_unique<ParallelStrategy>(store);
    case Strategy::naive:
    case Strategy::flat:
    case Strategy::overlap:
    case Strategy::bucketed: break;
    case Strategy::owner_broadcast:
      return std::make_unique<OwnerBroadcast>(store, ops, *communicator, config);
    case Strategy::zero1: return std::make_unique<Zero1>(store, ops, *communicator, config);
    case Strategy::zero2: return std::make_unique<Zero2>(store, ops, *communicator, config);
    case Strategy::fsdp: return std::make_unique<Fsdp>(store, ops, *communicator, *gathers, config);
  }
  return std::make_unique<GradientExchange>(store, ops, *communicator, config);
}

}  // namespace paceline
