#pragma once
// What a strategy keeps and sends, on paper; what pads groups is left out.

#include <optional>
#include <string_view>
#include <vector>

#include "core/precision.h"
#include "model/accounting.h"
#include "model/parameter_store.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

// The collectives of one kind that a rank takes part in during a step, on paper.
struct ExchangeForm {
  std::string_view op;  // "all_reduce"
  double calls = 0;
  double sent_bytes = 0;  // that a rank puts on the wire, in rings
  bool after_update =
      false;  // of what owners have updated; the others carry gradients or precede use
};

struct StrategyShape {
  StrategyConfig config;
  std::vector<ParameterEntry> entries;
  Precision precision;
  int ranks = 1;

  // Where a store is to be padded (StoreLayout::group_ends); empty: nowhere.
  [[nodiscard]] std::vector<ParameterId> group_ends() const;
  // By rank, the part of Adam's state that it keeps.
  [[nodiscard]] std::vector<double> optimizer_shares() const;
  // The part of the parameters.
  [[nodiscard]] double parameter_share() const;
  // Elements of gradients: where they are kept, and where they are written if not there. recycled:
  // an entry's memory, or that of a group's shard, is another's once its parameters are updated.
  struct Gradients {
    double kept = 0;
    double window = 0;
  };
  [[nodiscard]] Gradients gradients(bool recycled) const;
  [[nodiscard]] GatheredShape gathered() const;
  // Nothing where recomputation of groups of blocks uses them in an order of its own.
  [[nodiscard]] std::optional<std::vector<ExchangeForm>> exchanges(int recompute) const;
  [[nodiscard]] std::optional<double> sent_bytes(int recompute) const;
};

}  // namespace paceline
