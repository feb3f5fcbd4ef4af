#pragma once
// --profile: repetitions of a case under the device's profiler.

#include "core/device.h"
#include "core/world.h"
#include "harness/case_run.h"
#include "measure/progress.h"
#include "record/case_record.h"

namespace paceline {

// Collective, called after a case was measured: profiles `steps` more repetitions, then times as
// many without the profiler. Adds tables and summary columns on rank 0. Throws StoppedError on
// every rank after a stop signal.
void add_profile(CaseRecord& record, World& world, Device& device, CaseRun& run, int steps,
                 Progress& progress);

}  // namespace paceline
