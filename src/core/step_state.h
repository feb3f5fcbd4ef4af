#pragma once
// StepState: the scalars of a training step in device memory. Kernels read them there, so that a
// captured step can be replayed while they change.

#include <cstdint>

#include "core/device.h"

namespace paceline {

// Places in StepState::scalars.
enum class StepScalar : std::uint8_t {
  learning_rate,
  step,              // optimizer steps taken
  bias_correction1,  // 1 - beta1^step
  bias_correction2,  // 1 - beta2^step
  loss_scale,        // what the loss's gradient is multiplied with; 1 without loss scaling
  gradient_scale,    // what the optimizer multiplies gradients with: 1 / the loss scale they carry
  found_inf,         // 1: a gradient of this step is not finite, so the step is skipped
  good_steps,        // steps since the loss scale last changed
  count,
};

// The target of a position that the loss leaves out.
constexpr std::int32_t no_target = -1;

struct StepState {
  Array scalars;  // [StepScalar::count] float64
  Array loss;    // [1], the precision's loss dtype: the mean over this rank's positions that have a
                 // target
  Array tokens;  // [B, T] int32
  Array targets;  // [B, T] int32, no_target included
  int ranks = 1;  // whose gradients are added up: those of the mean over all of their positions
  std::int64_t without_target = 0;  // positions of this rank, as many as of any other

  // Allocates; the scalars are as after reset(). Throws OutOfMemory.
  static StepState create(Device& device, std::int64_t batch, std::int64_t context,
                          Dtype loss_dtype, bool loss_scaling, double learning_rate);
  // Before the first step. Without loss scaling `loss_scale` starts at 1, with it at 65536
  // (torch.amp.GradScaler).
  void reset(Device& device, bool loss_scaling, double rate) const;
  // One of the scalars.  [1] float64
  [[nodiscard]] Tensor scalar(StepScalar which) const {
    return scalars.tensor().slice(static_cast<std::int64_t>(which), {1});
  }
  // Host access to it; waits for the device.
  [[nodiscard]] double get(Device& device, StepScalar which) const;
  void set(Device& device, StepScalar which, double value) const;
};

}  // namespace paceline
