#pragma once
// Memory on paper: of the whole model, and of each device of a layout.

#include "experiments/plan/plan_case.h"

namespace paceline {

// Bytes of the model's state where it lies once: float32 masters, gradients, Adam's m and v.
struct StateBytes {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  [[nodiscard]] double all() const { return weights + gradients + optimizer; }
};
[[nodiscard]] StateBytes state_bytes(double parameters);

// Activations that two-matrix blocks keep for one token: L (D + F) elements; with recomputation of
// K blocks each, the inputs of the groups and one group's own: ceil(L / K) D + K (D + F).
[[nodiscard]] double two_matrix_saved_bytes_per_token(const TrainingCase& c);

// By kind, of the device that holds the most.
[[nodiscard]] MemoryForm device_memory(const PlanCase& plan);

// The least number of devices of `device_bytes` that hold `bytes` together.
[[nodiscard]] double devices_needed(double bytes, double device_bytes);

// The course's layout (b): state and half of the activations over n devices, the other half whole:
// 16 P / n + A / 2 + A / (2 n).
[[nodiscard]] double half_sharded_bytes(double state, double activations, double n);
// The least n for which half_sharded_bytes() <= device_bytes; infinite where none will do.
[[nodiscard]] double half_sharded_devices(double state, double activations, double device_bytes);

// Of recomputing every K blocks, the K of the least memory, and the form for it.
struct BestRecompute {
  int blocks = 0;
  double peak_bytes = 0;
};
[[nodiscard]] BestRecompute best_recompute(const PlanCase& plan);

}  // namespace paceline
