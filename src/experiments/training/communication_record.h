#pragma once
#include "core/world.h"
#include "experiments/training/step_runner.h"
#include "record/case_record.h"

namespace paceline {

// Collective. Of the last step, where it exchanges gradients: how often and how much, and what of
// it is exposed; where it updates parameters in backward: what of it is hidden. Of both: a timeline
// of the phases on the compute stream, and of the other streams' collectives and updates.
void add_communication(CaseRecord& record, World& world, const TrainingCase& c,
                       const StepRunner& runner, TrainingStep& step);

}  // namespace paceline
