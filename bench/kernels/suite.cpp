#include "bench/kernels/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/units.h"
#include "measure/statistics.h"

namespace paceline {

Suite::Suite(Device& device, const Precision& precision, std::size_t rotation_bytes)
    : device_(device),
      precision_(precision),
      rotation_bytes_(rotation_bytes),
      ceilings_{.copy = summarize(device.copy_rates()).median,
                .gemm = summarize(device.gemm_rates(precision)).median},
      ops_(device.make_ops({.precision = precision})),
      state_(StepState::create(device, 1, 1, precision.loss, precision.loss_scaling, 1e-3)) {
  ops_->begin_optimizer_step(state_, AdamWConfig{});
}

void Suite::add(std::string_view size, Operation operation) {
  const std::string name = fmt::format("{}/{}/{}", operation.name, size, precision_.name);
  auto shared = std::make_shared<const Operation>(std::move(operation));
  benchmark::RegisterBenchmark(name.c_str(), [this, shared](benchmark::State& state) {
    run(state, *shared);
  })->UseManualTime();
}

// Times a pass over all sets at once: the cost of the events is small in comparison, and the
// device's queue does not run empty between operations.
void Suite::run(benchmark::State& state, const Operation& operation) {
  try {
    prepare(operation);
  } catch (const OutOfMemory& error) {
    forget_inputs();
    state.SkipWithError(error.what());
    return;
  }
  Stream& stream = device_.compute_stream();
  double seconds = 0;
  while (state.KeepRunningBatch(inputs_->count())) {
    const EventPtr begin = stream.record();
    for (std::int64_t i = 0; i < inputs_->count(); ++i) operation.run(*ops_, (*inputs_)[i]);
    const EventPtr end = stream.record();
    end->synchronize();
    const double pass = end->seconds_since(*begin);
    state.SetIterationTime(pass);
    seconds += pass;
  }
  count(state, operation, seconds);
}

void Suite::prepare(const Operation& operation) {
  if (prepared_ == &operation) return;
  forget_inputs();
  const double needed = bytes_of(operation.operands);
  const std::size_t most = device_.info().memory_bytes;
  if (needed > static_cast<double>(most)) {
    throw OutOfMemory(static_cast<std::size_t>(needed), device_.ledger(), most, operation.name);
  }
  inputs_.emplace(device_, operation.operands, sets_of(operation));
  operation.run(*ops_, (*inputs_)[0]);  // warm-up: starts threads and reserves the workspace
  device_.synchronize();
  prepared_ = &operation;
}

void Suite::forget_inputs() {
  prepared_ = nullptr;
  inputs_.reset();
  device_.trim();
}

// As many sets as the rotation needs, limited by max_bytes, by half of the device's memory (the
// rest is for the operation's workspace) and by max_sets, for a reasonable set-up time.
std::int64_t Suite::sets_of(const Operation& operation) const {
  constexpr double max_sets = 1024;
  constexpr double max_bytes = std::size_t{1} << 30;
  const double wanted =
      std::ceil(static_cast<double>(rotation_bytes_) / touched_bytes(operation.operands));
  const double bytes = std::min(max_bytes, static_cast<double>(device_.info().memory_bytes) / 2);
  const double fitting = std::floor(bytes / bytes_of(operation.operands));
  return static_cast<std::int64_t>(std::max(1.0, std::min({wanted, fitting, max_sets})));
}

// copy_share can reach 1.5 on processors that read each cache line before writing it: there a copy
// moves three bytes for two that are counted, but an in-place operation moves two.
void Suite::count(benchmark::State& state, const Operation& operation, double seconds) const {
  const double runs_per_second = static_cast<double>(state.iterations()) / seconds;
  const double bytes = least_traffic(operation.operands) * runs_per_second;
  state.counters["bytes_per_second"] = bytes;
  state.counters["copy_share"] = bytes / ceilings_.copy;
  if (operation.flops == 0) return;
  const double flops = operation.flops * runs_per_second;
  state.counters["flop_per_second"] = flops;
  state.counters["gemm_share"] = flops / ceilings_.gemm;
}

}  // namespace paceline
