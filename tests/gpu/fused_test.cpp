// The composites of compiled execution, against the CPU oracle and against eager execution on the
// same GPU.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/cuda_backend.h"
#include "cuda/cuda_fused_ops.h"
#include "tests/oracle/op_cases.h"
#include "tests/unit/environment_variable.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

// Widths of models, odd widths, and one that exceeds the registers of a team.
constexpr std::array<std::int64_t, 7> widths = {768, 1600, 2560, 4, 36, 7, 9004};

// Row counts for this width; smaller where the oracle would take long.
std::array<std::int64_t, 3> rows_of(std::int64_t width) {
  return {1, 5, width > 2560 ? 300 : 2048};
}

Array view(const Tensor& x) { return {x, nullptr}; }

// Leaves NaN in the memory that the next allocations of this shape reuse.
void poison(Device& device, Ops& ops, const Shape& shape) {
  const Precision& p = ops.precision();
  std::vector<Array> memory;
  for (const Dtype dtype : {p.residual, p.residual, p.compute, p.compute}) {
    memory.push_back(device.allocate(shape, dtype, MemoryKind::activation));
    ops.fill(memory.back(), std::numeric_limits<double>::quiet_NaN());
  }
}
void poison(const Side& s, const Shape& shape) { poison(s.device, *s.ops, shape); }

class Fused : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    gpu = make_cuda_device(0, std::nullopt, 1);
    const Precision& precision = precision_named(GetParam());
    oracle = std::make_unique<Oracle>(*gpu, precision, Execution::compiled);
    eager = gpu->make_ops({.precision = precision});
  }

  [[nodiscard]] Ops& fused() const { return *oracle->tested().ops; }
  [[nodiscard]] Dtype compute() const { return eager->precision().compute; }
  [[nodiscard]] Array normal(const Shape& shape, Dtype dtype) const {
    return write(*gpu, *eager, shape, dtype,
                 oracle->normal_numbers(static_cast<std::size_t>(shape.numel())));
  }
  [[nodiscard]] std::vector<double> values(const Tensor& x) const { return read(*gpu, *eager, x); }

  TempFolder temp;
  EnvironmentVariable cache{"PACELINE_CACHE", temp.path().c_str()};
  std::unique_ptr<Device> gpu;
  std::unique_ptr<Oracle> oracle;
  std::unique_ptr<Ops> eager;
};

void check_add_rms_norm(Oracle& o, std::int64_t r, std::int64_t n) {
  o.check("add_rms_norm",
          {out(full, {r, n}, copied), out(low, {r, n}, without_cancellation),
           out(full, {r}, without_cancellation), in(full, {r, n}), in(low, {r, n}), in(full, {n})},
          [](const Side& s, const Tensors& t) {
            poison(s, t[0].shape);
            Saved saved;
            const auto [residual, normed] =
                s.ops->add_rms_norm(saved, view(t[3]), view(t[4]), {.value = t[5]});
            s.ops->cast(t[0], residual);
            s.ops->cast(t[1], normed);
            s.ops->cast(t[2], saved.take().at(1));
          });
}

void check_add_rms_norm_backward(Oracle& o, std::int64_t r, std::int64_t n) {
  const Computed gradient = sum_of(1, 16);  // because rstd is random
  for (const bool accumulate : {false, true}) {
    for (const bool with_residual : {false, true}) {
      o.check("add_rms_norm_backward",
              {out(full, {r, n}, gradient), column_sum(n, accumulate, r), in(full, {r, n}),
               in(low, {r, n}), in(full, {r, n}), in(full, {n}), in(full, {r})},
              [=](const Side& s, const Tensors& t) {
                poison(s, t[0].shape);
                Saved saved;
                saved.save({view(t[4]), view(t[6])});
                const Parameter weight{.value = t[5], .gradient = t[1], .accumulate = accumulate};
                s.ops->cast(
                    t[0], s.ops->add_rms_norm_backward(saved, with_residual ? view(t[2]) : Array(),
                                                       view(t[3]), weight));
              });
    }
  }
}

TEST_P(Fused, AddRmsNorm) {
  for (const std::int64_t n : widths) {
    for (const std::int64_t r : rows_of(n)) {
      check_add_rms_norm(*oracle, r, n);
      check_add_rms_norm_backward(*oracle, r, n);
    }
  }
}

TEST_P(Fused, AddRmsNormHasTheBitsOfEager) {
  for (const std::int64_t n : widths) {
    if (n > 8192) continue;  // longer rows are summed with a different number of threads
    for (const std::int64_t r : rows_of(n)) {
      SCOPED_TRACE(testing::Message() << r << " rows of " << n);
      const Array x = normal({r, n}, Dtype::f32);
      const Array branch = normal({r, n}, compute());
      const Array w = normal({n}, Dtype::f32);
      const auto run = [&](Ops& ops) {
        poison(*gpu, ops, x.shape());
        Saved saved;
        const auto [residual, normed] = ops.add_rms_norm(saved, x, branch, {.value = w});
        return std::array{values(residual), values(normed), values(saved.take().at(1))};
      };
      EXPECT_EQ(run(fused()), run(*eager));
    }
  }
}

// dy as a linear layer reads it: its input gradient for identity weights.
std::vector<double> as_linear_layers_read(Device& device, Ops& ops, const Array& dy) {
  const std::int64_t n = dy.shape()[-1];
  const Dtype compute = ops.precision().compute;
  std::vector<double> ones(static_cast<std::size_t>(n * n), 0);
  for (std::int64_t i = 0; i < n; ++i) ones[static_cast<std::size_t>(i * (n + 1))] = 1;
  const Array identity = write(device, ops, {n, n}, compute, ones);
  const Array gradient = device.allocate({n, n}, ops.precision().gradients, MemoryKind::workspace);
  const Array x = device.allocate(dy.shape(), compute, MemoryKind::workspace);
  ops.fill(x, 0);
  Saved saved;
  saved.save({x});
  return read(device, ops,
              ops.linear_backward(saved, dy, {.compute = identity, .gradient = gradient}));
}

// add_rms_norm_backward() also rounds its result for the linear layer that follows. For any other
// gradient the layer rounds itself.
TEST_P(Fused, LinearLayersReadTheRoundedGradient) {
  for (const std::int64_t n : {768, 36}) {
    const Shape shape{1, 5, n};
    const Array w = normal({n}, Dtype::f32);
    const Array dw = gpu->allocate({n}, Dtype::f32, MemoryKind::workspace);
    const auto gradient = [&] {
      Saved saved;
      saved.save({normal(shape, Dtype::f32), normal({5}, Dtype::f32)});
      poison(*gpu, fused(), shape);
      return fused().add_rms_norm_backward(saved, normal(shape, Dtype::f32),
                                           normal(shape, compute()), {.value = w, .gradient = dw});
    };
    const auto expect_rounded = [&](const Array& dx) {
      const Array rounded = gpu->allocate(shape, compute(), MemoryKind::workspace);
      eager->cast(rounded, dx);
      EXPECT_EQ(as_linear_layers_read(*gpu, fused(), dx), values(rounded));
    };
    expect_rounded(gradient());
    const std::size_t bytes = gpu->ledger().bytes();
    {
      const Array dx = gradient();
      const Array later = gradient();
      expect_rounded(dx);
      expect_rounded(later);
      expect_rounded(later);
    }
    EXPECT_EQ(gpu->ledger().bytes(), bytes);
    (void)gradient();
    for (int i = 0; i < 4; ++i) expect_rounded(normal(shape, Dtype::f32));
    expect_rounded(gradient());
    EXPECT_EQ(gpu->ledger().bytes(), bytes);
  }
}

void check_cross_entropy_in_place(Oracle& o, std::int64_t r, std::int64_t v) {
  o.check("cross_entropy_in_place",
          {out(full, {1}, sum_of(1)),
           inout(low, {r, v}, sum_of(1, 8 / static_cast<double>(with_target(r)))), targets(r, v),
           out(full, {r}, sum_of(1))},
          [](const Side& s, const Tensors& t) {
            if (auto* const fused = dynamic_cast<CudaFusedOps*>(s.ops.get())) {
              fused->fill(t[3], 0);
              fused->cross_entropy_in_place(t[0], t[1], t[2], s.state, t[1].rows());
            } else {
              s.ops->cross_entropy(t[0], t[3], t[1], t[2]);
              s.ops->cross_entropy_backward(t[1], t[1], t[3], t[2], s.state);
              s.ops->fill(t[3], 0);
            }
          });
}

TEST_P(Fused, CrossEntropyInPlace) {
  for (const std::int64_t r : {1, 5, 127}) {
    for (const std::int64_t v : {2, 131, 10000, 50257}) check_cross_entropy_in_place(*oracle, r, v);
  }
  check_cross_entropy_in_place(*oracle, 2048, 10000);
}

TEST_P(Fused, CrossEntropyInPlaceHasTheBitsOfEager) {
  const Array loss = gpu->allocate({1}, Dtype::f32, MemoryKind::workspace);
  const StepState& state = oracle->tested().state;
  for (const std::int64_t r : {1, 5, 300}) {
    for (const std::int64_t v : {7, 10000, 16384, 16385, 50256}) {
      SCOPED_TRACE(testing::Message() << r << " rows of " << v);
      const Array logits = normal({r, v}, compute());
      const Array targets = gpu->allocate({r}, Dtype::i32, MemoryKind::workspace);
      std::vector<std::int32_t> host(static_cast<std::size_t>(r));
      Random(5, static_cast<std::uint64_t>(v)).fill_integers(host, static_cast<std::int32_t>(v));
      gpu->to_device(targets, host.data());
      const Array want = gpu->allocate({r, v}, compute(), MemoryKind::workspace);
      const Array logsumexp = gpu->allocate({r}, Dtype::f32, MemoryKind::workspace);
      eager->cross_entropy(loss, logsumexp, logits, targets);
      eager->cross_entropy_backward(want, logits, logsumexp, targets, state);
      const std::vector<double> want_loss = values(loss);
      eager->fill(loss, std::numeric_limits<double>::quiet_NaN());
      dynamic_cast<CudaFusedOps&>(fused()).cross_entropy_in_place(loss, logits, targets, state, r);
      EXPECT_EQ(values(loss), want_loss);
      EXPECT_TRUE(values(logits) == values(want));
    }
  }
}

// A limit of a third of the logits and no limit give the same result up to the order of sums.
TEST_P(Fused, HeadInParts) {
  constexpr std::int64_t R = 300;
  constexpr std::int64_t D = 64;
  constexpr std::int64_t V = 1000;
  auto& ops = dynamic_cast<CudaFusedOps&>(fused());
  const StepState state = StepState::create(*gpu, 3, R / 3, Dtype::f32, false, 0.01);
  std::vector<std::int32_t> host(R);
  Random(5, 1).fill_integers(host, V);
  gpu->to_device(state.targets, host.data());
  const Array x = normal({3, R / 3, D}, ops.precision().residual);
  const Array branch = normal({3, R / 3, D}, compute());
  const Array norm = normal({D}, Dtype::f32);
  const Array linear = normal({V, D}, compute());
  const auto gradient = [&](const Shape& shape) {
    Array g = gpu->allocate(shape, Dtype::f32, MemoryKind::gradient);
    eager->fill(g, 1);
    return g;
  };
  struct Outcome {
    std::vector<double> loss, logits, norm, linear, x;
    std::size_t peak;
  };
  const auto run = [&](std::int64_t limit, bool accumulate) {
    ops.limit_logits(limit);
    const Array d_norm = gradient({D});
    const Array d_linear = gradient({V, D});
    const Array logits = gradient({3, R / 3, V});
    const Ops::Head head{
        .norm = {.value = norm, .gradient = d_norm},
        .linear = {.compute = linear, .gradient = d_linear, .accumulate = accumulate},
        .state = state,
        .logits = logits};
    gpu->ledger().reset_peak();
    Saved saved;
    ops.head(saved, x, branch, head);
    const Array dx = ops.head_backward(saved, head);
    const std::size_t peak = gpu->ledger().peak();
    return Outcome{values(state.loss), values(logits), values(d_norm),
                   values(d_linear),   values(dx),     peak};
  };
  const auto expect_close = [](const std::vector<double>& got, const std::vector<double>& want,
                               double tolerance, const char* what) {
    double largest = 0;
    double error = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      error = std::max(error, std::abs(got[i] - want[i]));
      ASSERT_TRUE(std::isfinite(got[i])) << what;
    }
    EXPECT_LE(error, tolerance * largest) << what;
  };
  const double ulp = compute() == Dtype::f32    ? 0x1p-20
                     : compute() == Dtype::bf16 ? 0x1p-7
                                                : 0x1p-10;
  for (const bool accumulate : {false, true}) {
    const std::int64_t some = 128 * V * size_of(compute());
    const std::int64_t all = std::int64_t{1} << 30U;
    (void)run(all, accumulate);  // tunes the products, which takes memory
    (void)run(some, accumulate);
    const Outcome whole = run(all, accumulate);
    const Outcome parts = run(some, accumulate);
    expect_close(parts.loss, whole.loss, 0x1p-20, "loss");
    expect_close(parts.logits, whole.logits, ulp, "logits");
    expect_close(parts.linear, whole.linear, ulp, "the linear layer's gradient");
    expect_close(parts.norm, whole.norm, ulp, "the norm's gradient");
    expect_close(parts.x, whole.x, ulp, "the gradient of the residual stream");
    EXPECT_LT(parts.peak, whole.peak);
  }
}

// Scale, mask and softmax of naive attention are the kernel of fused attention.
TEST_P(Fused, NaiveAttentionHasTheBitsOfFused) {
  constexpr AttentionShape shape{.batch = 2, .context = 70, .heads = 3, .head_dim = 16};
  const Array qkv = normal({shape.batch, shape.context, 3, shape.heads, shape.head_dim}, compute());
  const auto run = [&](AttentionKind attention) {
    const std::unique_ptr<Ops> ops = gpu->make_ops({.precision = precision_named(GetParam()),
                                                    .attention = attention,
                                                    .deterministic = true,
                                                    .execution = Execution::compiled});
    Saved saved;
    const Array y = ops->attention(saved, qkv, shape);
    return std::array{values(y), values(saved.take().at(1))};
  };
  EXPECT_EQ(run(AttentionKind::naive), run(AttentionKind::fused));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Fused, ::testing::Values("fp32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
