#pragma once
// Closed forms of memory: of the whole model, and of a device of a layout.

#include <array>

#include "experiments/plan/plan_case.h"

namespace paceline {

// Bytes per parameter of the model's state in float32: weights, gradients, Adam's m and v.
inline constexpr double weight_bytes = 4;
inline constexpr double optimizer_bytes = 8;
inline constexpr double state_bytes = weight_bytes + weight_bytes + optimizer_bytes;

// Bytes of activations per token that two-matrix blocks keep for backward: L (D + F) elements. With
// recomputation of groups of K blocks, ceil(L / K) D + K (D + F): the inputs of all groups, and all
// activations of one group.
[[nodiscard]] double two_matrix_saved_bytes_per_token(const TrainingCase& c);

// The parts of a device's memory, by their names in JSON and in text.
struct MemoryPart {
  const char* key;
  const char* what;
  double MemoryForm::*bytes;
};
inline constexpr std::array memory_parts = {
    MemoryPart{"parameters_bytes", "parameters and copies", &MemoryForm::parameters},
    MemoryPart{"gathered_bytes", "gathered parameters", &MemoryForm::gathered},
    MemoryPart{"gradients_bytes", "gradients", &MemoryForm::gradients},
    MemoryPart{"optimizer_bytes", "optimizer state", &MemoryForm::optimizer},
    MemoryPart{"activations_bytes", "activations", &MemoryForm::activations},
    MemoryPart{"transient_bytes", "transient at the peak", &MemoryForm::transient}};

// Bytes by kind on the device with the largest shard.
[[nodiscard]] MemoryForm device_memory(const PlanCase& plan);

// The smallest n for which the state and a part of the activations, sharded over n devices, and the
// rest of the activations, which each of them has, fit: (16 P + S A) / n + (1 - S) A <=
// device_bytes; infinite if there is none. Without activations: the devices needed for the state.
[[nodiscard]] double devices_needed(double state, double device_bytes, double activations = 0,
                                    double sharded = 0);

// The K with the lowest peak when every K blocks are recomputed, and that peak.
struct BestRecompute {
  int blocks = 0;
  double peak_bytes = 0;
};
[[nodiscard]] BestRecompute best_recompute(const PlanCase& plan);

}  // namespace paceline
