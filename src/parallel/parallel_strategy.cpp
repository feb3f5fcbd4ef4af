#include "parallel/parallel_strategy.h"

#include "core/error.h"
#include "parallel/fsdp.h"
#include "parallel/optimizer_sharding.h"

namespace paceline {

std::unique_ptr<ParallelStrategy> make_strategy(const StrategyConfig& config, ParameterStore& store,
                                                Ops& ops, Communicator* communicator,
                                                Communicator* gathers) {
  if (config.strategy == Strategy::none) return std::make_unique<ParallelStrategy>(store);
  if (communicator == nullptr) throw InternalError("an exchange of gradients needs a communicator");
  switch (config.strategy) {
    case Strategy::none:
    case Strategy::naive:
    case Strategy::flat:
    case Strategy::overlap:
    case Strategy::bucketed: break;
    case Strategy::owner_broadcast:
      return std::make_unique<OwnerBroadcast>(store, ops, *communicator, config);
    case Strategy::zero1: return std::make_unique<Zero1>(store, ops, *communicator, config);
    case Strategy::zero2: return std::make_unique<Zero2>(store, ops, *communicator, config);
    case Strategy::fsdp:
      if (gathers == nullptr) throw InternalError("fsdp needs a communicator for its gathers");
      return std::make_unique<Fsdp>(store, ops, *communicator, *gathers, config);
  }
  return std::make_unique<GradientExchange>(store, ops, *communicator, config);
}

}  // namespace paceline
