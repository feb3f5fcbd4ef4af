#pragma once
// Alternatives timed in turns.

#include <functional>
#include <vector>

#include "cuda/cuda_device.h"

namespace paceline {

// Enqueues one alternative on the compute stream. False: it cannot be run.
using Alternative = std::function<bool()>;

// The median seconds of each alternative, infinite where it cannot be run. A GPU's clock follows
// the power that it draws, so that of two bursts the later one is slower: here every alternative
// runs once per round, in rounds that follow each other without a pause. Before each run the L2
// cache is filled with other data, where there is memory for that, and then `warm` is copied: the
// kernel before has just written it. Waits for the stream.
[[nodiscard]] std::vector<double> round_robin_medians(CudaDevice& device,
                                                      const std::vector<Alternative>& runs,
                                                      const Tensor& warm);

}  // namespace paceline
