#pragma once
#include "core/ops.h"
#include "core/toy_ops.h"

namespace paceline {

// Runs a training step of the course's toy model, Linear(10, 10), ReLU, LayerNorm(10), Linear(10,
// 5), on random inputs and targets: forward, mean squared error, backward, AdamW. Dtypes follow
// torch.autocast. Throws OutOfMemory.
void run_toy_step(Device& device, Ops& ops, ToyOps& toys, std::uint64_t seed);

}  // namespace paceline
