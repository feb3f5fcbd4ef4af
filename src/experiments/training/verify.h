#pragma once
#include <vector>

#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"
#include "experiments/training/training_case.h"
#include "experiments/training/training_comparison.h"
#include "measure/progress.h"
#include "record/case_record.h"

namespace paceline {

// On rank 0, what a single process has trained. It serves all cases of a small model that differ
// only in how ranks exchange.
struct SingleProcess {
  struct Runs {
    Trained first;
    std::vector<Noise> noise;  // noise[n]: of n + 1 further runs
  };

  TrainingCase of;
  Runs sgd;
  Runs adamw;
};

// Collective. --verify: checks that gradients and weights equal those of a single process that
// trains on the whole batch. Every rank trains on its rows; then rank 0 trains on all rows, several
// times unless `single` has these runs from the case before, while the other ranks wait. Only one
// model is in memory at a time. The record has the table "check", the summary's columns and a
// status that is equal on all ranks: ok, mismatch, diverged or oom.
[[nodiscard]] CaseRecord verify_training(TrainingCase c, World& world, Device& device,
                                         const ProcessGroup& data_parallel, SingleProcess& single,
                                         Progress& progress);

}  // namespace paceline
