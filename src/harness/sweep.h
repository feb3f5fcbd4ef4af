#pragma once
#include <filesystem>
#include <string>

#include "core/world.h"
#include "harness/experiment.h"
#include "harness/run_options.h"
#include "record/environment.h"

namespace paceline {

// --output, or results/<experiment>-<now>.h5.
[[nodiscard]] std::filesystem::path output_path(const RunOptions& options,
                                                const std::string& experiment);

// Runs every case of an experiment and leaves its result file, which says of `run` what it was;
// with --dry-run prints what it would do. Collective. Returns mismatch when a check failed or
// training diverged. Throws UsageError for a bad case or an output that exists, StoppedError after
// a signal or when results cannot be written.
[[nodiscard]] ExitCode run_sweep(Experiment& experiment, World& world, RunInfo run,
                                 const RunOptions& options);

}  // namespace paceline
