#pragma once
#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"
#include "experiments/training/training_case.h"
#include "measure/progress.h"
#include "record/case_record.h"

namespace paceline {

// Collective. --verify: checks that gradients and weights equal those of a single process that
// trains on the whole batch. Every rank trains on its rows; then rank 0 trains on all rows, several
// times, while the other ranks wait. Only one model is in memory at a time. The record has the
// table "check", the summary's columns and a status that is equal on all ranks: ok, mismatch,
// diverged or oom.
[[nodiscard]] CaseRecord verify_training(const TrainingCase& c, World& world, Device& device,
                                         const ProcessGroup& data_parallel, Progress& progress);

}  // namespace paceline
