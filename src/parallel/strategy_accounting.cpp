#include "parallel/strategy_accounting.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/communicator.h"
#include "core/error.h"
#include "parallel/gradient_exchange.h"
#include "parallel/optimizer_sharding.h"

namespace paceline {

namespace {

double elements_of(const ParameterEntry& entry) { return static_cast<double>(entry.shape.numel()); }

// Elements of the groups of parameters, separately for those that are read in full precision.
struct GroupSizes {
  double full_precision = 0;
  double others = 0;
  double largest = 0;        // group of the others
  std::vector<double> each;  // groups of the others, in the store's order

  [[nodiscard]] double all() const { return full_precision + others; }
};

GroupSizes group_sizes(const std::vector<ParameterEntry>& entries,
                       const std::vector<ParameterId>& ends) {
  GroupSizes sizes;
  double group = 0;
  for (ParameterId id = 0; id < entries.size(); ++id) {
    (entries[id].full_precision ? sizes.full_precision : sizes.others) += elements_of(entries[id]);
    if (entries[id].full_precision) continue;
    group += elements_of(entries[id]);
    if (!std::binary_search(ends.begin(), ends.end(), id)) continue;
    sizes.largest = std::max(sizes.largest, group);
    sizes.each.push_back(std::exchange(group, 0));
  }
  return sizes;
}

}  // namespace

std::vector<ParameterId> StrategyShape::group_ends() const {
  if (!is_sharded(config.strategy)) return {};
  return paceline::group_ends(entries, config.strategy, config.bucket_bytes,
                              size_of(precision.communication));
}

std::vector<double> StrategyShape::optimizer_shares() const {
  const auto n = static_cast<std::size_t>(ranks);
  if (is_sharded(config.strategy)) return std::vector<double>(n, 1.0 / ranks);
  if (config.strategy != Strategy::owner_broadcast) return std::vector<double>(n, 1);
  const std::vector<int> owners = owners_of(entries, ranks);
  std::vector<double> shares(n, 0);
  double all = 0;
  for (ParameterId id = 0; id < entries.size(); ++id) {
    shares[static_cast<std::size_t>(owners[id])] += elements_of(entries[id]);
    all += elements_of(entries[id]);
  }
  for (double& share : shares) share /= all;
  return shares;
}

double StrategyShape::parameter_share() const {
  return config.strategy == Strategy::fsdp ? 1.0 / ranks : 1;
}

StrategyShape::Gradients StrategyShape::gradients(bool recycled) const {
  const bool sharded = config.strategy == Strategy::zero2 || config.strategy == Strategy::fsdp;
  std::vector<ParameterId> each(entries.size());
  std::iota(each.begin(), each.end(), ParameterId{0});
  const GroupSizes sizes = group_sizes(entries, sharded ? group_ends() : each);
  if (!sharded && !recycled) return {.kept = sizes.all()};
  const double window =
      std::min(sizes.others, window_room(config.strategy) * sizes.largest) + sizes.full_precision;
  if (!sharded) return {.window = window};
  return {.kept = (recycled ? window : sizes.all()) / ranks, .window = window};
}

GatheredShape StrategyShape::gathered() const {
  if (config.strategy != Strategy::fsdp) return {};
  const GroupSizes sizes = group_sizes(entries, group_ends());
  const auto units = static_cast<double>(sizes.each.size());
  const double most = config.reshard == Reshard::yes ? config.prefetch + 1 : units;
  return {.slots = std::min(most, units), .slot = sizes.largest, .resident = sizes.full_precision};
}

std::optional<std::vector<ExchangeForm>> StrategyShape::exchanges(int recompute) const {
  if (ranks == 1 || config.strategy == Strategy::none) return std::vector<ExchangeForm>{};
  const GroupSizes sizes = group_sizes(entries, group_ends());
  const double ring = ring_share(ranks);
  const double gradients = ring * sizes.all() * bytes_of(precision.communication);
  const double parameters = ring * (sizes.full_precision * bytes_of(precision.parameters) +
                                    sizes.others * bytes_of(precision.compute));
  if (config.strategy == Strategy::fsdp) {
    if (recompute > 1 && config.reshard == Reshard::yes) return std::nullopt;
    const auto units = static_cast<double>(sizes.each.size());
    // Backward uses units in the store's order. The units that forward used last are still in the
    // slots.
    const double kept = gathered().slots;
    const double again = std::accumulate(sizes.each.begin() + static_cast<std::ptrdiff_t>(kept),
                                         sizes.each.end(), 0.0);
    return std::vector<ExchangeForm>{
        {.op = "all_gather",
         .calls = units + (units - kept),
         .sent_bytes = parameters + ring * again * bytes_of(precision.compute)},
        {.op = "reduce_scatter", .calls = units, .sent_bytes = gradients}};
  }
  const auto ranges =
      static_cast<double>(gradient_ranges(entries, config.strategy, config.bucket_bytes,
                                          size_of(precision.communication))
                              .size());
  if (is_sharded(config.strategy)) {
    return std::vector<ExchangeForm>{
        {.op = "reduce_scatter", .calls = ranges, .sent_bytes = gradients},
        {.op = "all_gather", .calls = ranges, .sent_bytes = parameters}};
  }
  std::vector<ExchangeForm> all = {
      {.op = "all_reduce", .calls = ranges, .sent_bytes = 2 * gradients}};
  if (config.strategy == Strategy::owner_broadcast) {
    all.push_back({.op = "broadcast",
                   .calls = static_cast<double>(entries.size()),
                   .sent_bytes = parameters,
                   .after_update = true});
  }
  return all;
}

std::optional<double> StrategyShape::sent_bytes(int recompute) const {
  const std::optional<std::vector<ExchangeForm>> all = exchanges(recompute);
  if (!all) return std::nullopt;
  double bytes = 0;
  for (const ExchangeForm& one : *all) bytes += one.sent_bytes;
  return bytes;
}

}  // namespace paceline
