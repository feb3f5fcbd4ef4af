#pragma once
// Closed forms of a strategy's memory and traffic. Padding of groups is ignored.

#include <optional>
#include <string_view>
#include <vector>

#include "core/precision.h"
#include "model/accounting.h"
#include "model/parameter_store.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

// The collectives of one kind in a rank's step, in closed form.
struct ExchangeForm {
  std::string_view op;  // "all_reduce"
  double calls = 0;
  double sent_bytes = 0;      // per rank on the wire, in rings
  bool after_update = false;  // they send updated parameters, after the optimizer step
};

struct StrategyShape {
  StrategyConfig config;
  std::vector<ParameterEntry> entries;
  Precision precision;
  int ranks = 1;

  // StoreLayout::group_ends, where the store is padded; empty: no padding.
  [[nodiscard]] std::vector<ParameterId> group_ends() const;
  // By rank: the fraction of Adam's state that it keeps.
  [[nodiscard]] std::vector<double> optimizer_shares() const;
  // The fraction of the parameters that a rank keeps.
  [[nodiscard]] double parameter_share() const;
  // Elements of gradient memory. kept: gradients, or their shards. window: where backward writes
  // gradients that are not kept there. recycled: the memory of an entry's gradient, or of a group's
  // shard, is reused once its parameters are updated.
  struct Gradients {
    double kept = 0;
    double window = 0;
  };
  [[nodiscard]] Gradients gradients(bool recycled) const;
  [[nodiscard]] GatheredShape gathered() const;
  // Empty if recomputation of groups of blocks changes the order in which fsdp uses units.
  [[nodiscard]] std::optional<std::vector<ExchangeForm>> exchanges(int recompute) const;
  [[nodiscard]] std::optional<double> sent_bytes(int recompute) const;
};

}  // namespace paceline
