#pragma once
#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"
#include "experiments/training/training_case.h"
#include "measure/progress.h"
#include "record/case_record.h"

namespace paceline {

// Collective. --verify: gradients and weights are those of a single process that trains on the
// whole batch. Every rank trains its rows; then rank 0 trains all of them, several times, while the
// others wait; one model is in memory at a time. The record has the table "check", the summary's
// columns and, agreed, the status: ok, mismatch, diverged, or oom.
[[nodiscard]] CaseRecord verify_training(const TrainingCase& c, World& world, Device& device,
                                         const ProcessGroup& data_parallel, Progress& progress);

}  // namespace paceline
