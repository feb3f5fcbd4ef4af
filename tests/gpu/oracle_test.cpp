// Every primitive of CudaEagerOps against the CPU oracle in float64, on the same rounded inputs:
// fresh random numbers, odd sizes, outputs poisoned with NaN.

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
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

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

Dtype dtype_of_operand(const Operand& o, const Precision& p) {
  if (o.holds == Holds::ids) return Dtype::i32;
  return o.holds == Holds::low ? p.compute : p.parameters;
}

// Values of a floating tensor, through the device's own cast to float32 or float64.
std::vector<double> read(Device& device, Ops& ops, const Tensor& x) {
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

Array write(Device& device, Ops& ops, const Shape& shape, Dtype dtype,
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

class Oracle : public ::testing::TestWithParam<const char*> {
 protected:
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
      std::vector<double> values(n, nan);
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

  // Relative L2; infinities must stand in the same places, and nothing may be NaN.
  static double distance(const std::vector<double>& got, const std::vector<double>& want,
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

using Tensors = std::vector<Tensor>;
constexpr Holds low = Holds::low;
constexpr Holds full = Holds::full;
constexpr std::array<std::int64_t, 4> rows = {1, 3, 127, 129};
constexpr std::array<std::int64_t, 4> cols = {1, 5, 131, 768};

TEST_P(Oracle, Elementwise) {
  for (const std::int64_t n : {1, 3, 127, 129, 4096, 100003}) {
    check("cast down", {out(low, {n}), in(full, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.cast(t[0], t[1]); });
    check("cast up", {out(full, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.cast(t[0], t[1]); });
    check("fill", {out(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.fill(t[0], 1.5); });
    check("fill normal", {out(low, {n})}, [](Ops& o, const StepState&, const Tensors& t) {
      o.fill_normal(t[0], Random(3, 1), TruncatedNormal(0.5, 1.5));
    });
    check("add", {out(full, {n}), in(full, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.add(t[0], t[1], t[2]); });
    check("add in place", {inout(low, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.add(t[0], t[0], t[1]); });
    check("scale", {inout(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.scale(t[0], 0.125); });
    check("relu", {out(low, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.relu(t[0], t[1]); });
    check("relu backward", {out(low, {n}), in(low, {n}), in(low, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.relu_backward(t[0], t[1], t[2]); });
    check("sgd", {inout(full, {n}), in(full, {n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.sgd(t[0], t[1], 0.1); });
    for (const Reduction r : {Reduction::mean, Reduction::sum}) {
      check("squared error", {out(full, {1}), in(low, {n}), in(low, {n})},
            [r](Ops& o, const StepState&, const Tensors& t) {
              o.squared_error(t[0], t[1], t[2], r);
            });
      check("squared error backward", {out(low, {n}), in(low, {n}), in(low, {n})},
            [r](Ops& o, const StepState&, const Tensors& t) {
              o.squared_error_backward(t[0], t[1], t[2], r);
            });
    }
  }
}

TEST_P(Oracle, SwigluAndBias) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t n : cols) {
      check("swiglu", {out(low, {r, n}), in(low, {r, 2 * n})},
            [](Ops& o, const StepState&, const Tensors& t) { o.swiglu(t[0], t[1]); });
      check(
          "swiglu backward", {out(low, {r, 2 * n}), in(low, {r, n}), in(low, {r, 2 * n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.swiglu_backward(t[0], t[1], t[2]); });
      check(
          "swiglu backward in place", {inout(low, {r, 2 * n}), in(low, {r, n})},
          [](Ops& o, const StepState&, const Tensors& t) { o.swiglu_backward(t[0], t[1], t[0]); });
      check("add bias", {inout(low, {r, n}), in(low, {n})},
            [](Ops& o, const StepState&, const Tensors& t) { o.add_bias(t[0], t[1]); });
      for (const bool accumulate : {false, true}) {
        check("bias backward", {sum({n}, accumulate), in(low, {r, n})},
              [accumulate](Ops& o, const StepState&, const Tensors& t) {
                o.bias_backward(t[0], t[1], accumulate);
              });
      }
      check("weighted sum", {sum({r}, false), in(low, {r, n}), in(low, {n})},
            [](Ops& o, const StepState&, const Tensors& t) { o.weighted_sum(t[0], t[1], t[2]); });
      check("weighted sum backward",
            {out(low, {r, n}), sum({n}, false), in(full, {r}), in(low, {r, n}), in(low, {n})},
            [](Ops& o, const StepState&, const Tensors& t) {
              o.weighted_sum_backward(t[0], t[1], t[2], t[3], t[4]);
            });
    }
  }
}

TEST_P(Oracle, Norms) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t n : cols) {
      check("rms norm", {out(low, {r, n}), out(full, {r}), in(full, {r, n}), in(full, {n})},
            [](Ops& o, const StepState&, const Tensors& t) {
              o.rms_norm(t[0], t[1], t[2], t[3], 1e-5);
            });
      for (const bool accumulate : {false, true}) {
        check("rms norm backward",
              {out(full, {r, n}), in(full, {r, n}), sum({n}, accumulate), in(low, {r, n}),
               in(full, {r, n}), in(full, {n}), in(full, {r})},
              [accumulate](Ops& o, const StepState&, const Tensors& t) {
                o.rms_norm_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], accumulate);
              });
        check("rms norm backward in place",
              {inout(full, {r, n}), sum({n}, accumulate), in(low, {r, n}), in(full, {r, n}),
               in(full, {n}), in(full, {r})},
              [accumulate](Ops& o, const StepState&, const Tensors& t) {
                o.rms_norm_backward(t[0], t[0], t[1], t[2], t[3], t[4], t[5], accumulate);
              });
        check("layer norm backward",
              {out(low, {r, n}), sum({n}, accumulate), sum({n}, accumulate), in(low, {r, n}),
               in(low, {r, n}), in(full, {n}), in(full, {r}), in(full, {r})},
              [accumulate](Ops& o, const StepState&, const Tensors& t) {
                o.layer_norm_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], accumulate);
              });
      }
      if (n > 1) {
        check("layer norm",
              {out(low, {r, n}), out(full, {r}), out(full, {r}), in(low, {r, n}), in(full, {n}),
               in(full, {n})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.layer_norm(t[0], t[1], t[2], t[3], t[4], t[5], 1e-5);
              });
      }
    }
  }
}

TEST_P(Oracle, AttentionParts) {
  for (const std::int64_t t : {1, 3, 17, 127, 129, 512}) {
    check("causal mask", {inout(low, {3, t, t})},
          [](Ops& o, const StepState&, const Tensors& x) { o.causal_mask(x[0]); });
    check("mask and softmax", {inout(low, {3, t, t})},
          [](Ops& o, const StepState&, const Tensors& x) {
            o.causal_mask(x[0]);
            o.softmax(x[0], x[0]);
          });
    check("softmax", {out(low, {5, t}), in(low, {5, t})},
          [](Ops& o, const StepState&, const Tensors& x) { o.softmax(x[0], x[1]); });
    check("softmax backward", {out(low, {5, t}), in(low, {5, t}), in(low, {5, t})},
          [](Ops& o, const StepState&, const Tensors& x) { o.softmax_backward(x[0], x[1], x[2]); });
    for (const std::int64_t d : {2, 16, 80}) {
      for (const bool inverse : {false, true}) {
        check(
            "rope", {inout(low, {2, t, 3, 3, d}), in(full, {t, d / 2, 2})},
            [inverse](Ops& o, const StepState&, const Tensors& x) { o.rope(x[0], x[1], inverse); });
      }
    }
  }
  for (const std::int64_t n : {8191, 20001, 70000}) {
    check("long softmax", {out(low, {3, n}), in(low, {3, n})},
          [](Ops& o, const StepState&, const Tensors& x) { o.softmax(x[0], x[1]); });
    check("long softmax backward", {out(low, {3, n}), in(low, {3, n}), in(low, {3, n})},
          [](Ops& o, const StepState&, const Tensors& x) { o.softmax_backward(x[0], x[1], x[2]); });
  }
}

TEST_P(Oracle, EmbeddingAndLoss) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t d : cols) {
      check("embedding", {out(full, {r, d}), ids(r, 50), in(full, {50, d})},
            [](Ops& o, const StepState&, const Tensors& t) { o.embedding(t[0], t[1], t[2]); });
      for (const bool accumulate : {false, true}) {
        check(
            "embedding backward",
            {accumulate ? inout(full, {50, d}) : out(full, {50, d}), in(full, {r, d}), ids(r, 50)},
            [accumulate](Ops& o, const StepState&, const Tensors& t) {
              o.embedding_backward(t[0], t[1], t[2], accumulate);
            });
      }
    }
    for (const std::int64_t v : {2, 131, 10000, 50257}) {
      check("cross entropy", {out(full, {1}), out(full, {r}), in(low, {r, v}), ids(r, v)},
            [](Ops& o, const StepState&, const Tensors& t) {
              o.cross_entropy(t[0], t[1], t[2], t[3]);
            });
      check("cross entropy backward",
            {out(low, {r, v}), out(full, {1}), out(full, {r}), in(low, {r, v}), ids(r, v)},
            [](Ops& o, const StepState& s, const Tensors& t) {
              o.cross_entropy(t[1], t[2], t[3], t[4]);
              o.cross_entropy_backward(t[0], t[3], t[2], t[4], s);
            });
    }
  }
}

TEST_P(Oracle, Matmul) {
  for (const std::int64_t m : {1, 3, 129}) {
    for (const std::int64_t k : {1, 5, 131, 256}) {
      for (const std::int64_t n : {1, 64, 127}) {
        check("x w^T", {out(low, {m, n}), in(low, {m, k}), in(low, {n, k})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.matmul(Matrix(t[0]), Matrix(t[1]), Matrix(t[2]).transpose());
              });
        check("dy w", {out(low, {m, n}), in(low, {m, k}), in(low, {k, n})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.matmul(Matrix(t[0]), Matrix(t[1]), Matrix(t[2]));
              });
        check("dy^T x, added", {inout(full, {m, n}), in(low, {k, m}), in(low, {k, n})},
              [](Ops& o, const StepState&, const Tensors& t) {
                o.matmul(Matrix(t[0]), Matrix(t[1]).transpose(), Matrix(t[2]), 0.5, 1);
              });
      }
    }
  }
  // The heads of packed q, k, v: two batch dimensions and strides.
  for (const std::int64_t d : {2, 16, 64, 80}) {
    const std::int64_t B = 2;
    const std::int64_t T = 33;
    const std::int64_t H = 3;
    check("scores", {out(low, {B, H, T, T}), in(low, {B, T, 3, H, d})},
          [=](Ops& o, const StepState&, const Tensors& t) {
            const auto part = [&](std::int64_t which) {
              Matrix x;
              x.tensor = t[1].slice(which * H * d, {t[1].numel() - which * H * d});
              x.rows = T;
              x.cols = d;
              x.row_stride = 3 * H * d;
              x.batch = {B, H};
              x.batch_stride = {T * 3 * H * d, d};
              return x;
            };
            Matrix scores;
            scores.tensor = t[0];
            scores.rows = scores.cols = scores.row_stride = T;
            scores.batch = {B, H};
            scores.batch_stride = {H * T * T, T * T};
            o.matmul(scores, part(0), part(1).transpose());
          });
  }
}

TEST_P(Oracle, AdamW) {
  for (const std::int64_t n : {1, 3, 129, 100003}) {
    check("adamw",
          {inout(full, {n}), in(full, {n}), inout(full, {n}), out(full, {n}), out(low, {n})},
          [](Ops& o, const StepState& s, const Tensors& t) {
            o.fill(t[3], 0.25);  // v is positive
            const bool copies = t[4].dtype != t[0].dtype;
            const AdamWConfig config;
            for (int step = 0; step < 3; ++step) {
              o.begin_optimizer_step(s, config);
              o.adamw({t[0], t[1], t[2], t[3], copies ? t[4] : Tensor{}}, s, config);
              o.end_optimizer_step(s);
            }
            if (!copies) o.cast(t[4], t[0]);
          });
  }
}

// With gradients that were exchanged in the half type, and another group's hyperparameters.
TEST_P(Oracle, AdamWOfExchangedGradients) {
  if (GetParam() == std::string("fp16")) GTEST_SKIP() << "gradients are exchanged as bfloat16";
  for (const std::int64_t n : {1, 3, 129, 100003}) {
    check("adamw of exchanged gradients",
          {inout(full, {n}), in(low, {n}), inout(full, {n}), out(full, {n})},
          [](Ops& o, const StepState& s, const Tensors& t) {
            o.fill(t[3], 0.25);  // v is positive
            const AdamWConfig other{.beta1 = 0.8, .beta2 = 0.95, .rate_factor = 0.5};
            o.begin_optimizer_step(s, {});
            o.begin_parameter_group(s, other);
            o.adamw({t[0], t[1], t[2], t[3], {}}, s, other);
            o.end_optimizer_step(s);
          });
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, Oracle, ::testing::Values("fp32", "tf32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
