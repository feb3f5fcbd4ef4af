#pragma once
// StepState: the scalars of a training step in device memory. Kernels read them from there, so that
// they can change between replays of a captured step.

#include <cstdint>

#include "core/device.h"

namespace paceline {

// Indices into StepState::scalars.
enum class StepScalar : std::uint8_t {
  learning_rate,
  step,              // optimizer steps taken
  bias_correction1,  // 1 - beta1^step
  bias_correction2,  // 1 - beta2^step
  loss_scale,        // multiplies the loss's gradient; 1 without loss scaling
  gradient_scale,    // the optimizer multiplies gradients by it: 1 / the loss scale in them
  found_inf,         // 1: a gradient of this step is not finite, so the step is skipped
  good_steps,        // steps since the loss scale last changed
  count,
};

// The target of a position that the loss ignores.
constexpr std::int32_t no_target = -1;

struct StepState {
  Array scalars;  // [StepScalar::count] float64
  Array loss;     // [1], the precision's loss dtype: the mean over this rank's positions with a
                  // target
  Array tokens;   // [B, T] int32
  Array targets;  // [B, T] int32, no_target included
  int ranks = 1;  // gradients are those of the mean over the positions of this many ranks
  std::int64_t without_target = 0;  // positions of each rank without a target, equal on all ranks

  // Allocates the arrays and calls reset(). Throws OutOfMemory.
  static StepState create(Device& device, std::int64_t batch, std::int64_t context,
                          Dtype loss_dtype, bool loss_scaling, double learning_rate);
  // Sets the scalars before the first step. loss_scale starts at 1, with loss scaling at 65536
  // (torch.amp.GradScaler).
  void reset(Device& device, bool loss_scaling, double rate) const;
  // [1] float64
  [[nodiscard]] Tensor scalar(StepScalar which) const {
    return scalars.tensor().slice(static_cast<std::int64_t>(which), {1});
  }
  // Host access to a scalar; waits for the device.
  [[nodiscard]] double get(Device& device, StepScalar which) const;
  void set(Device& device, StepScalar which, double value) const;
};

}  // namespace paceline
