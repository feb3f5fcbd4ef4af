#pragma once
// All commands.

#include <span>

#include "harness/command.h"

namespace paceline {

// In the order of `paceline --help`. To add an experiment, add a folder to experiments/ and a line
// to registry.cpp with the function that constructs its command.
[[nodiscard]] std::span<const Registration> registry();

}  // namespace paceline
