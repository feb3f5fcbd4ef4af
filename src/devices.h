#pragma once
// The devices and communicators of a launch.

#include "harness/command.h"
#include "harness/run_options.h"

namespace paceline {

// The device that --device selects, of the same kind on every rank; auto means CUDA if every rank
// can have a GPU of its own. Collective. Throws EnvironmentError if --device cuda is given and some
// rank cannot have its own GPU.
[[nodiscard]] RankDevice make_device(const RunOptions& run, World& world);

// What the command measures with. Of the backends mpi (host memory) and nccl (GPU memory), one has
// no ranks if --device or the command leaves it out; nccl has as many of the first ranks as can
// have a GPU each. Collective. Throws like make_device(), and if ranks have different versions of
// NCCL.
[[nodiscard]] Launch make_launch(const ParsedCommand& parsed, World& world);

}  // namespace paceline
