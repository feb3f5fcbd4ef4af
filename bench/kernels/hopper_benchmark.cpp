// A product written in cuda/hopper's tile vocabulary, compared with cuBLASLt on the same operands.
// Both need a Hopper GPU and run whatever --device is.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/kernels/hopper_gemm.h"
#include "bench/kernels/inputs.h"
#include "core/ops.h"
#include "cuda/cuda_backend.h"
#include "cuda/runtime/cuda_stream.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

namespace {

constexpr int gemm_size = 8192;  // M = N = K

class SquareProduct {
 public:
  SquareProduct()
      : device_(make_cuda_device(0, std::nullopt, 1)),
        ops_(device_->make_ops({.precision = precision_named("bf16")})),
        inputs_(*device_,
                {{Use::in, Dtype::bf16, {gemm_size, gemm_size}},
                 {Use::in, Dtype::bf16, {gemm_size, gemm_size}},
                 {Use::out, Dtype::bf16, {gemm_size, gemm_size}}},
                1) {}

  void ours() {
    hopper_gemm({.a = a().data,
                 .b = b().data,
                 .c = c().data,
                 .M = gemm_size,
                 .N = gemm_size,
                 .K = gemm_size,
                 .stream = dynamic_cast<CudaStream&>(device_->compute_stream()).get()});
  }
  void theirs() { ops_->matmul(Matrix(c()), Matrix(a()), Matrix(b()).transpose()); }

  // Both sum in float32, in different orders, and round once.
  [[nodiscard]] bool agree() {
    theirs();
    const std::vector<bf16> want = result();
    device_->zero(c());
    ours();
    const std::vector<bf16> got = result();
    return std::equal(got.begin(), got.end(), want.begin(), [](bf16 x, bf16 y) {
      const auto [is, should] = std::pair{static_cast<float>(x), static_cast<float>(y)};
      return std::abs(is - should) <= std::abs(should) / 64 + 0.05F;  // false for NaN
    });
  }

  // The seconds of `calls` calls together.
  template <class Call>
  double time(int calls, Call call) {
    const EventPtr begin = device_->compute_stream().record();
    for (int i = 0; i < calls; ++i) call();
    const EventPtr end = device_->compute_stream().record();
    end->synchronize();
    return end->seconds_since(*begin);
  }

 private:
  [[nodiscard]] const Tensor& a() const { return inputs_[0][0]; }
  [[nodiscard]] const Tensor& b() const { return inputs_[0][1]; }
  [[nodiscard]] const Tensor& c() const { return inputs_[0][2]; }

  std::vector<bf16> result() {
    std::vector<bf16> values(static_cast<std::size_t>(c().numel()));
    device_->synchronize();
    device_->to_host(values.data(), c());
    return values;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Ops> ops_;
  InputSets inputs_;
};

void run_product(benchmark::State& state, void (SquareProduct::*call)()) {
  constexpr int calls = 10;
  if (gpu_uuid(0).empty() || compute_capability() != 90) {
    state.SkipWithError("no Hopper GPU here");
    return;
  }
  SquareProduct product;
  if (!product.agree()) {
    state.SkipWithError("the product differs from cuBLASLt's");
    return;
  }
  double seconds = 0;
  while (state.KeepRunningBatch(calls)) {
    const double pass = product.time(calls, [&] { (product.*call)(); });
    state.SetIterationTime(pass);
    seconds += pass;
  }
  const double runs_per_second = static_cast<double>(state.iterations()) / seconds;
  state.counters["bytes_per_second"] = 3.0 * gemm_size * gemm_size * sizeof(bf16) * runs_per_second;
  state.counters["flop_per_second"] = 2.0 * gemm_size * gemm_size * gemm_size * runs_per_second;
}

// Registers before main(), as BENCHMARK() does. Without CUDA this file is not compiled, so nothing
// else may refer to it.
benchmark::internal::Benchmark* add(const char* name, void (SquareProduct::*call)()) {
  constexpr int iterations =
      300;  // in one run, because drawing the operands takes longer than multiplying them
  return benchmark::RegisterBenchmark(name,
                                      [call](benchmark::State& state) { run_product(state, call); })
      ->UseManualTime()
      ->Iterations(iterations);
}
[[maybe_unused]] const auto* const ours = add("hopper_gemm/8192/bf16", &SquareProduct::ours);
[[maybe_unused]] const auto* const theirs =
    add("hopper_gemm_cublaslt/8192/bf16", &SquareProduct::theirs);

}  // namespace

}  // namespace paceline
