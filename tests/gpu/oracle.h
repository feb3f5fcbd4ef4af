#pragma once
// A GPU's operations against the CPU oracle in float64, on the same rounded inputs: fresh random
// numbers, outputs poisoned with NaN.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/ops.h"
#include "core/random.h"
#include "cpu/cpu_device.h"
#include "cuda/cuda_backend.h"

namespace paceline {

// What a tensor holds decides its dtype: `low` the compute dtype, `full` float32.
enum class Holds : std::uint8_t { low, full, ids };
// An operand starts as random numbers, or (output) as NaN.
enum class Role : std::uint8_t { input, output, inout };

struct Operand {
  Role role;
  Holds holds;
  Shape shape;
  std::int64_t below = 0;  // ids: in [0, below)
  // Sums of random signs may come out near 0: their error is measured against this much per element
  // where that is more than the result's own size.
  double scale = 0;
};

using Work = std::function<void(Ops&, const StepState&, const std::vector<Tensor>&)>;

inline Dtype dtype_of_operand(const Operand& o, const Precision& p) {
  if (o.holds == Holds::ids) return Dtype::i32;
  return o.holds == Holds::low ? p.compute : p.parameters;
}

// Values of a floating tensor, through the device's own cast to float32 or float64.
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

// Relative L2; infinities must stand in the same places, and nothing may be NaN.
inline double distance(const std::vector<double>& got, const std::vector<double>& want,
                       double scale) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  const double least = scale * scale * static_cast<double>(got.size());
  return std::sqrt(error / std::max({norm, least, 1e-300}));
}

class Oracle : public ::testing::TestWithParam<const char*> {
 protected:
  using Tensors = std::vector<Tensor>;
  static constexpr Holds low = Holds::low;
  static constexpr Holds full = Holds::full;
  static constexpr std::array<std::int64_t, 4> rows = {1, 3, 127, 129};
  static constexpr std::array<std::int64_t, 4> cols = {1, 5, 131, 768};

  void SetUp() override {
    if (gpu_of_rank(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    precision = precision_named(GetParam());
    gpu = make_cuda_device(0, std::nullopt, 1);
    gpu_ops = gpu->make_ops({.precision = precision});
    cpu_ops = cpu.make_ops({.precision = precision_named("fp64")});
    gpu_state = StepState::create(*gpu, 1, 1, Dtype::f32, false, 1e-2);
    cpu_state = StepState::create(cpu, 1, 1, Dtype::f64, false, 1e-2);
    for (const auto& [device, state] :
         {std::pair<Device*, StepState*>{gpu.get(), &gpu_state}, {&cpu, &cpu_state}}) {
      state->set(*device, StepScalar::loss_scale, 8);
    }
  }

  void check(const std::string& what, const std::vector<Operand>& operands, const Work& run) {
    std::vector<Array> on_gpu;
    std::vector<Array> on_cpu;
    for (const Operand& o : operands) {
      const auto n = static_cast<std::size_t>(o.shape.numel());
      if (o.holds == Holds::ids) {
        std::vector<std::int32_t> ids(n);
        Random(11, streams++).fill_integers(ids, static_cast<std::int32_t>(o.below));
        on_gpu.push_back(gpu->allocate(o.shape, Dtype::i32, MemoryKind::workspace));
        on_cpu.push_back(cpu.allocate(o.shape, Dtype::i32, MemoryKind::workspace));
        gpu->to_device(on_gpu.back(), ids.data());
        cpu.to_device(on_cpu.back(), ids.data());
        continue;
      }
      std::vector<double> values(n, std::numeric_limits<double>::quiet_NaN());
      if (o.role != Role::output) {
        std::vector<float> drawn(n);
        Random(11, streams++).fill_normal(drawn);
        values.assign(drawn.begin(), drawn.end());
      }
      on_gpu.push_back(write(*gpu, *gpu_ops, o.shape, dtype_of_operand(o, precision), values));
      const std::vector<double> rounded = read(*gpu, *gpu_ops, on_gpu.back());
      on_cpu.push_back(write(cpu, *cpu_ops, o.shape, Dtype::f64, rounded));
    }
    run(*gpu_ops, gpu_state, {on_gpu.begin(), on_gpu.end()});
    run(*cpu_ops, cpu_state, {on_cpu.begin(), on_cpu.end()});
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].role == Role::input || operands[i].holds == Holds::ids) continue;
      const std::vector<double> got = read(*gpu, *gpu_ops, on_gpu[i]);
      const std::vector<double> want = read(cpu, *cpu_ops, on_cpu[i]);
      EXPECT_LT(distance(got, want, operands[i].scale), tolerance()) << what << ", operand " << i;
    }
  }

  [[nodiscard]] double tolerance() const {
    if (precision.name == "tf32") return 1e-3;
    return precision.compute == Dtype::f32 ? 1e-5 : 1e-2;
  }

  static Operand in(Holds h, const Shape& s) { return {Role::input, h, s}; }
  static Operand out(Holds h, const Shape& s) { return {Role::output, h, s}; }
  static Operand inout(Holds h, const Shape& s) { return {Role::inout, h, s}; }
  // A column sum over rows, written or added to.
  static Operand sum(const Shape& s, bool accumulate) {
    return {accumulate ? Role::inout : Role::output, Holds::full, s, 0, 1};
  }
  static Operand ids(std::int64_t n, std::int64_t below) {
    return {Role::input, Holds::ids, {n}, below};
  }

  Precision precision = precision_named("fp32");
  std::unique_ptr<Device> gpu;
  CpuDevice cpu{std::size_t{1} << 32U, 4};
  std::unique_ptr<Ops> gpu_ops;
  std::unique_ptr<Ops> cpu_ops;
  StepState gpu_state;
  StepState cpu_state;
  std::uint64_t streams = 0;
};

}  // namespace paceline
