#pragma once
#include "harness/experiment.h"

namespace paceline {

// --dry-run: prints every case with its predicted FLOPs, bytes and memory, and why it cannot run
// here; with `json` a line of JSON for each.
void print_dry_run(const Experiment& experiment, bool json);

}  // namespace paceline
