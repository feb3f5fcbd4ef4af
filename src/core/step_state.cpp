#include "core/step_state.h"

#include <array>

namespace paceline {

namespace {

constexpr auto count = static_cast<std::size_t>(StepScalar::count);

Tensor scalar(const Array& scalars, StepScalar which) {
  return scalars.tensor().slice(static_cast<std::int64_t>(which), {1});
}

}  // namespace

StepState StepState::create(Device& device, std::int64_t batch, std::int64_t context,
                            Dtype loss_dtype, bool loss_scaling, double learning_rate) {
  const Scope scope(device.scopes(), "step state");
  const auto kind = MemoryKind::workspace;
  StepState s{.scalars = device.allocate({count}, Dtype::f64, kind),
              .loss = device.allocate({1}, loss_dtype, kind),
              .tokens = device.allocate({batch, context}, Dtype::i32, kind),
              .targets = device.allocate({batch, context}, Dtype::i32, kind)};
  s.reset(device, loss_scaling, learning_rate);
  return s;
}

void StepState::reset(Device& device, bool loss_scaling, double rate) const {
  std::array<double, count> initial{};
  const auto at = [&](StepScalar which) -> double& {
    return initial.at(static_cast<std::size_t>(which));
  };
  at(StepScalar::learning_rate) = rate;
  at(StepScalar::loss_scale) = loss_scaling ? 65536.0 : 1.0;
  at(StepScalar::gradient_scale) = 1.0 / at(StepScalar::loss_scale);
  device.to_device(scalars, initial.data());
}

double StepState::get(Device& device, StepScalar which) const {
  double value = 0;
  device.to_host(&value, scalar(scalars, which));
  return value;
}

void StepState::set(Device& device, StepScalar which, double value) const {
  device.to_device(scalar(scalars, which), &value);
}

}  // namespace paceline
