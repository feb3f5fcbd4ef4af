#include "experiments/attention/attention.h"
#include "experiments/rank_command.h"

namespace paceline {

std::unique_ptr<Command> attention_command() {
  return std::make_unique<RankCommand<AttentionExperiment, AttentionCase>>(attention_case_factors(),
                                                                           attention_presets());
}

}  // namespace paceline
