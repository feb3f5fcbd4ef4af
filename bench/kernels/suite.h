#pragma once
// The benchmarks of a device's operations. An Operation has operands, a FLOP count and a call; the
// Suite creates its inputs, times it and compares it with the device's copy and GEMM rates. It uses
// Device and Ops only, so it works for every device.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/inputs.h"
#include "core/device.h"
#include "core/non_copyable.h"
#include "core/ops.h"
#include "core/precision.h"
#include "core/step_state.h"

namespace paceline {

using Tensors = std::span<const Tensor>;

struct Operation {
  std::string name;
  std::vector<Operand> operands;  // in the order of run()'s tensors
  // Additions, multiplications, divisions, roots and exponentials count as one each.
  double flops = 0;
  std::function<void(Ops&, Tensors)> run;
};

// Measured once at the start.
struct Ceilings {
  double copy = 0;  // bytes read and written per second
  double gemm = 0;  // FLOP/s with inputs of the precision's compute dtype
};

// The dimensions of ops.h at one model size.
struct Dimensions {
  std::string size;
  std::int64_t B = 0, T = 0, R = 0, D = 0, F = 0, H = 0, d = 0, V = 0;
};

class Suite : NonCopyable {
 public:
  // rotation_bytes: what an operation touches in all of its input sets together, large enough that
  // no set is still in a cache.
  Suite(Device& device, const Precision& precision, std::size_t rotation_bytes);

  [[nodiscard]] const Precision& precision() const { return precision_; }
  // The state after one optimizer step.
  [[nodiscard]] const StepState& state() const { return state_; }
  [[nodiscard]] const Ceilings& ceilings() const { return ceilings_; }

  // Registers "name/size/precision". The suite must outlive the run of the benchmarks.
  void add(std::string_view size, Operation operation);

 private:
  void run(benchmark::State& state, const Operation& operation);
  void prepare(const Operation& operation);
  void forget_inputs();
  [[nodiscard]] std::int64_t sets_of(const Operation& operation) const;
  void count(benchmark::State& state, const Operation& operation, double seconds) const;

  Device& device_;
  Precision precision_;
  std::size_t rotation_bytes_;
  Ceilings ceilings_;
  std::unique_ptr<Ops> ops_;
  StepState state_;
  // Google Benchmark calls a benchmark several times in a row, with increasing iterations.
  const Operation* prepared_ = nullptr;
  std::optional<InputSets> inputs_;
};

void add_matmuls(Suite& suite, const Dimensions& m);
void add_attention(Suite& suite, const Dimensions& m);
void add_layers(Suite& suite, const Dimensions& m);
void add_optimizer(Suite& suite, const Dimensions& m);
void add_scopes(Device& device);  // the time is that of 65 scopes

}  // namespace paceline
