#pragma once
// Compares a device's operations with the CPU's in float64 on equal inputs: random numbers, rounded
// to the tested dtypes. Outputs are filled with NaN before the call.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/ops.h"
#include "core/random.h"
#include "core/step_state.h"
#include "cpu/cpu_device.h"
#include "tests/oracle/closeness.h"

namespace paceline {

// The contents of a tensor determine its dtype: `low` is the compute dtype, `full` the dtype of
// parameters, `ids` and `targets` int32; every third target is no_target.
enum class Holds : std::uint8_t { low, full, ids, targets };
// Inputs and inouts start as random numbers, outputs as NaN.
enum class Role : std::uint8_t { input, output, inout };

struct Operand {
  Role role;
  Holds holds;
  Shape shape;
  std::int64_t below = 0;  // ids and targets: in [0, below)
  Computed how;            // of output and inout
};

inline Operand in(Holds h, const Shape& s) { return {Role::input, h, s}; }
inline Operand out(Holds h, const Shape& s, const Computed& how) {
  return {Role::output, h, s, 0, how};
}
inline Operand inout(Holds h, const Shape& s, const Computed& how) {
  return {Role::inout, h, s, 0, how};
}
inline Operand ids(std::int64_t n, std::int64_t below) {
  return {Role::input, Holds::ids, {n}, below};
}
inline Operand targets(std::int64_t n, std::int64_t below) {
  return {Role::input, Holds::targets, {n}, below};
}

[[nodiscard]] constexpr std::int64_t with_target(std::int64_t rows) { return rows - rows / 3; }

// The values of a floating-point tensor; all but float64 go through the device's cast to float32.
inline std::vector<double> read(Device& device, Ops& ops, const Tensor& x) {
  const auto n = static_cast<std::size_t>(x.numel());
  if (x.dtype == Dtype::f64) {
    std::vector<double> values(n);
    device.to_host(values.data(), x);
    return values;
  }
  Array wide = device.allocate(x.shape, Dtype::f32, MemoryKind::workspace);
  ops.cast(wide, x);
  std::vector<float> values(n);
  device.to_host(values.data(), wide);
  return {values.begin(), values.end()};
}

inline Array write(Device& device, Ops& ops, const Shape& shape, Dtype dtype,
                   const std::vector<double>& values) {
  Array x = device.allocate(shape, dtype, MemoryKind::workspace);
  if (dtype == Dtype::f64) {
    device.to_device(x, values.data());
    return x;
  }
  const std::vector<float> narrow(values.begin(), values.end());
  Array wide = device.allocate(shape, Dtype::f32, MemoryKind::workspace);
  device.to_device(wide, narrow.data());
  if (dtype == Dtype::f32) return wide;
  ops.cast(x, wide);
  return x;
}

class Oracle {
 public:
  using Tensors = std::vector<Tensor>;
  // The device, operations and state of one side of a comparison: the tested device or the oracle.
  struct Side {
    Side(Device& of, const Precision& precision, Execution execution)
        : device(of),
          ops(of.make_ops({.precision = precision, .execution = execution})),
          state(StepState::create(of, 1, 1, precision.loss, false, 1e-2)) {
      state.set(of, StepScalar::loss_scale, 8);
    }
    Device& device;
    std::unique_ptr<Ops> ops;
    StepState state;
  };
  using Work = std::function<void(const Side&, const Tensors&)>;

  Oracle(Device& device, const Precision& precision, Execution execution = Execution::eager)
      : precision_(precision), tested_(device, precision, execution) {}

  [[nodiscard]] const Precision& precision() const { return precision_; }
  [[nodiscard]] const Side& tested() const { return tested_; }

  void check(const std::string& what, const std::vector<Operand>& operands, const Work& run) {
    std::vector<Array> got;
    std::vector<Array> want;
    for (const Operand& o : operands) {
      auto [tested, wide] = o.below > 0 ? drawn_integers(o) : drawn(o);
      got.push_back(std::move(tested));
      want.push_back(std::move(wide));
    }
    run(tested_, {got.begin(), got.end()});
    run(oracle_, {want.begin(), want.end()});
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].role == Role::input) continue;
      SCOPED_TRACE(what + ", operand " + std::to_string(i) + " " + operands[i].shape.str());
      compare(operands[i].how, got[i].dtype(), read(tested_.device, *tested_.ops, got[i]),
              read(oracle_.device, *oracle_.ops, want[i]));
    }
  }

  // n normal numbers, from a new random stream at every call. Beyond 1,000,003 elements they
  // repeat; the period is prime, so that corresponding elements of blocks and rows differ.
  [[nodiscard]] std::vector<double> normal_numbers(std::size_t n) {
    constexpr std::size_t period = 1'000'003;
    std::vector<float> drawn(std::min(n, period));
    Random(11, streams_++).fill_normal(drawn);
    std::vector<double> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = drawn[i % period];
    return values;
  }

  // The largest error over its tolerance of all elements computed (not copied) in float32 so far.
  [[nodiscard]] double furthest() const { return furthest_; }

 private:
  using Pair = std::pair<Array, Array>;  // on the tested device, and on the oracle's

  [[nodiscard]] Dtype dtype_of_operand(Holds holds) const {
    switch (holds) {
      case Holds::low: return precision_.compute;
      case Holds::full: return precision_.parameters;
      case Holds::ids:
      case Holds::targets: return Dtype::i32;
    }
    throw InternalError("an operand that holds nothing known");
  }

  Pair drawn(const Operand& o) {
    const auto n = static_cast<std::size_t>(o.shape.numel());
    const std::vector<double> values =
        o.role == Role::output ? std::vector<double>(n, std::numeric_limits<double>::quiet_NaN())
                               : normal_numbers(n);
    Array tested = write(tested_.device, *tested_.ops, o.shape, dtype_of_operand(o.holds), values);
    const std::vector<double> rounded = read(tested_.device, *tested_.ops, tested);
    Array wide = write(cpu_, *oracle_.ops, o.shape, Dtype::f64, rounded);
    return {std::move(tested), std::move(wide)};
  }

  Pair drawn_integers(const Operand& o) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(o.shape.numel()));
    Random(11, streams_++).fill_integers(values, static_cast<std::int32_t>(o.below));
    if (o.holds == Holds::targets) {
      for (std::size_t i = 2; i < values.size(); i += 3) values[i] = no_target;
      tested_.state.without_target = std::ranges::count(values, no_target);
      oracle_.state.without_target = tested_.state.without_target;
    }
    Pair pair;
    for (auto [array, device] :
         {std::pair<Array*, Device*>{&pair.first, &tested_.device}, {&pair.second, &cpu_}}) {
      *array = device->allocate(o.shape, Dtype::i32, MemoryKind::workspace);
      device->to_device(*array, values.data());
    }
    return pair;
  }

  void compare(const Computed& how, Dtype stored, const std::vector<double>& got,
               const std::vector<double>& want) {
    // Below the smallest normal number, rounding errors are absolute.
    const double least = half_smallest(stored) / unit_roundoff(stored);
    EXPECT_LT(distance(got, want, std::max(how.terms > 0 ? 1.0 : 0.0, least)),
              distance_tolerance(how, stored, precision_.gemm));
    const Tolerance tolerance = tolerance_of(how, stored, precision_.gemm);
    const auto tolerance_of_element = [&](std::size_t) { return tolerance; };
    EXPECT_TRUE(every_element_is_right(got, want, tolerance_of_element));
    if (how.arithmetic && stored == Dtype::f32) {
      furthest_ = std::max(furthest_, deviation(got, want, tolerance_of_element).share);
    }
  }

  Precision precision_;
  CpuDevice cpu_{std::size_t{1} << 32U, 4};
  Side tested_;
  Side oracle_{cpu_, precision_named("fp64"), Execution::eager};
  std::uint64_t streams_ = 0;
  double furthest_ = 0;
};

}  // namespace paceline
