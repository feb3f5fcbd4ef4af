#pragma once
#include "core/world.h"
#include "experiments/training/step_runner.h"
#include "record/case_record.h"

namespace paceline {

// Collective. Records the last step's communication: calls, bytes and the exposed share; with
// --optimizer in-backward, the overlapped share of the updates. In both cases also the table
// "timeline": phases on the compute stream, and collectives and updates on the other streams.
void add_communication(CaseRecord& record, World& world, const TrainingCase& c,
                       const StepRunner& runner, TrainingStep& step);

}  // namespace paceline
