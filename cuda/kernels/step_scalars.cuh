#pragma once
// Access of kernels and launchers to the scalars of a step.

#include "core/step_state.h"

namespace paceline {

inline double* scalars_of(const StepState& state) { return state.scalars.tensor().as<double>(); }

__device__ inline double& at(double* scalars, StepScalar which) {
  return scalars[static_cast<int>(which)];
}

}  // namespace paceline
