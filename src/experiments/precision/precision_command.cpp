#include "experiments/precision/precision.h"
#include "experiments/rank_command.h"

namespace paceline {

std::unique_ptr<Command> precision_command() {
  return std::make_unique<RankCommand<PrecisionExperiment, PrecisionCase>>(precision_case_factors(),
                                                                           precision_presets());
}

}  // namespace paceline
