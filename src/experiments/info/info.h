#pragma once
#include "core/device.h"
#include "core/world.h"
#include "record/environment.h"

namespace paceline {

// `paceline info`: ranks, devices, library versions and, with ceilings, what they can do, on rank
// 0's standard output. Collective.
void print_info(World& world, Device& device, const RunInfo& run, bool ceilings);

}  // namespace paceline
