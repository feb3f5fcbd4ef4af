#pragma once
#include "core/world.h"
#include "harness/experiment.h"
#include "harness/run_options.h"
#include "record/environment.h"

namespace paceline {

// Runs every case of an experiment and writes its result file, with `run` as one of the file's
// runs; with --dry-run prints the cases instead. Collective. Returns mismatch if a check failed or
// training diverged. Throws UsageError for a bad case or an output that exists, StoppedError after
// a signal or if results cannot be written.
[[nodiscard]] ExitCode run_sweep(Experiment& experiment, World& world, RunInfo run,
                                 const RunOptions& options);

}  // namespace paceline
