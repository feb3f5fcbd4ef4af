#pragma once
// Before MPI is up: which of a launch's processes speaks for all.

#include "core/error.h"

namespace paceline {

// True for rank 0 of a launcher, by the launcher's variables, and for a process without one.
[[nodiscard]] bool speaks_for_launch();

// A launcher that sees one process fail ends the others: the silent ones let the speaker finish
// its line first. Returns the code.
[[nodiscard]] int wait_for_speaker(ExitCode code);

}  // namespace paceline
