#include "parallel/parallel_strategy.h"

#include "core/error.h"
#include "parallel/gradient_exchange.h"
#include "parallel/owner_broadcast.h"
#include "parallel/zero1.h"

namespace paceline {

std::unique_ptr<ParallelStrategy> make_strategy(const StrategyConfig& config, ParameterStore& store,
                                                Ops& ops, Communicator* communicator) {
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
  }
  return std::make_unique<GradientExchange>(store, ops, *communicator, config);
}

std::vector<double> optimizer_shares(Strategy strategy, const std::vector<ParameterEntry>& entries,
                                     int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  if (strategy == Strategy::zero1) return std::vector<double>(n, 1.0 / ranks);
  if (strategy != Strategy::owner_broadcast) return std::vector<double>(n, 1);
  const std::vector<int> owners = owners_of(entries, ranks);
  std::vector<double> shares(n, 0);
  double all = 0;
  for (std::size_t id = 0; id < entries.size(); ++id) {
    const auto elements = static_cast<double>(entries[id].shape.numel());
    shares[static_cast<std::size_t>(owners[id])] += elements;
    all += elements;
  }
  for (double& share : shares) share /= all;
  return shares;
}

}  // namespace paceline
