#pragma once
// Round-robin timing of alternatives.

#include <functional>
#include <vector>

#include "cuda/runtime/cuda_device.h"

namespace paceline {

// Enqueues one alternative on the compute stream. Returns false if it cannot be run.
using Alternative = std::function<bool()>;

// The median seconds of each alternative; infinite if it cannot be run. A GPU lowers its clock as
// it draws power, so of two bursts the second would be slower. Therefore every alternative runs
// once per round, in rounds without a pause. Before each run the L2 cache is filled with other
// data, if there is memory for that, and then `warm` is copied, since in a step the previous kernel
// has just written it. Waits for the stream.
[[nodiscard]] std::vector<double> round_robin_medians(CudaDevice& device,
                                                      const std::vector<Alternative>& runs,
                                                      const Tensor& warm);

}  // namespace paceline
