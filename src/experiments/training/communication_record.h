#pragma once
#include "core/world.h"
#include "experiments/training/step_runner.h"
#include "record/case_record.h"

namespace paceline {

// Collective. Of the last step, where it exchanges gradients: how often and how much, what of it is
// exposed, and a timeline of the phases on the compute stream and of the collectives on the
// communication stream.
void add_communication(CaseRecord& record, World& world, const StepRunner& runner,
                       TrainingStep& step);

}  // namespace paceline
