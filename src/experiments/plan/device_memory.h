#pragma once
// Closed forms of memory: of the whole model, and of a device of a layout.

#include "experiments/plan/plan_case.h"

namespace paceline {

// Bytes of one copy of the model's state in float32: master weights, gradients, Adam's m and v.
struct StateBytes {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  [[nodiscard]] double all() const { return weights + gradients + optimizer; }
};
[[nodiscard]] StateBytes state_bytes(double parameters);

// Bytes of activations per token that two-matrix blocks keep for backward: L (D + F) elements. With
// recomputation of groups of K blocks, ceil(L / K) D + K (D + F): the inputs of all groups, and all
// activations of one group.
[[nodiscard]] double two_matrix_saved_bytes_per_token(const TrainingCase& c);

// Bytes by kind on the device with the largest shard.
[[nodiscard]] MemoryForm device_memory(const PlanCase& plan);

// The number of devices of `device_bytes` each that are needed for `bytes`.
[[nodiscard]] double devices_needed(double bytes, double device_bytes);

// The smallest n for which the state and a part of the activations, sharded over n devices, and the
// rest of the activations, which each of them has, fit: (16 P + S A) / n + (1 - S) A <=
// device_bytes; infinite if there is none.
[[nodiscard]] double devices_with_activations(double state, double activations, double sharded,
                                              double device_bytes);

// The K with the lowest peak when every K blocks are recomputed, and that peak.
struct BestRecompute {
  int blocks = 0;
  double peak_bytes = 0;
};
[[nodiscard]] BestRecompute best_recompute(const PlanCase& plan);

}  // namespace paceline
