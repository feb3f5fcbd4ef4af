#include "core/step_state.h"

namespace paceline {

StepState StepState::create(Device& device, std::int64_t batch, std::int64_t context,
                            Dtype loss_dtype, bool loss_scaling, double learning_rate) {
  const Scope scope(device.scopes(), "step state");
  const auto kind = MemoryKind::workspace;
  constexpr auto count = static_cast<std::int64_t>(StepScalar::count);
  StepState s{.scalars = device.allocate({count}, Dtype::f64, kind),
              .loss = device.allocate({1}, loss_dtype, kind),
              .tokens = device.allocate({batch, context}, Dtype::i32, kind),
              .targets = device.allocate({batch, context}, Dtype::i32, kind)};
  s.reset(device, loss_scaling, learning_rate);
  return s;
}

void StepState::reset(Device& device, bool loss_scaling, double rate) const {
  const double loss_scale = loss_scaling ? 65536 : 1;
  device.zero(scalars);
  set(device, StepScalar::learning_rate, rate);
  set(device, StepScalar::loss_scale, loss_scale);
  set(device, StepScalar::gradient_scale, 1 / loss_scale);
}

double StepState::get(Device& device, StepScalar which) const {
  double value = 0;
  device.to_host(&value, scalar(which));
  return value;
}

void StepState::set(Device& device, StepScalar which, double value) const {
  device.to_device(scalar(which), &value);
}

}  // namespace paceline
