// The composites of compiled execution, against the CPU oracle and against eager execution on the
// same GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "core/random.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_fused_ops.h"
#include "cuda/runtime/current_device.h"
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

// ---- a weight's update as the epilogue of its gradient's product ----

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr AdamWConfig with_decay{.weight_decay = 0.1};

class WeightUpdateTest : public ::testing::Test {
 protected:
  // The weight and its moments within larger arrays, whose other elements must not change.
  struct Weight {
    static constexpr std::int64_t margin = 128;
    Array p, m, v, copy, gradient;
    Shape shape;

    [[nodiscard]] AdamWRange range() const {
      const auto of = [&](const Array& x) { return x.tensor().slice(margin, {shape.numel()}); };
      return {.parameters = of(p),
              .gradients = gradient.tensor().reshape({shape.numel()}),
              .m = of(m),
              .v = of(v),
              .copy = of(copy)};
    }
    [[nodiscard]] Parameter parameter(WeightUpdate* update) const {
      return {.value = range().parameters.reshape(shape),
              .compute = range().copy.reshape(shape),
              .gradient = gradient,
              .update = update};
    }
  };

  void SetUp() override {
    if (gpu_uuid(0).empty() || compute_capability() != 90) GTEST_SKIP() << "no Hopper GPU here";
    gpu = make_cuda_device(0, std::nullopt, 1);
    ops = gpu->make_ops({.precision = precision_named("bf16"), .execution = Execution::compiled});
    state = StepState::create(*gpu, 1, 1, Dtype::f32, false, 0.01);
    ops->begin_optimizer_step(state, with_decay);
    dynamic_cast<CudaFusedOps&>(*ops).limit_updates({});
  }

  [[nodiscard]] Array normal(const Shape& shape, Dtype dtype, std::uint64_t stream) const {
    std::vector<float> numbers(static_cast<std::size_t>(shape.numel()));
    Random(7, stream).fill_normal(numbers);
    return write(*gpu, *ops, shape, dtype, {numbers.begin(), numbers.end()});
  }
  [[nodiscard]] std::vector<double> values(const Tensor& x) const { return read(*gpu, *ops, x); }

  [[nodiscard]] Weight weight(std::int64_t out, std::int64_t in) const {
    const Shape flat{out * in + 2 * Weight::margin};
    Weight w{.p = normal(flat, Dtype::f32, 1),
             .m = normal(flat, Dtype::f32, 2),
             .v = normal(flat, Dtype::f32, 3),
             .copy = normal(flat, Dtype::bf16, 1),
             .gradient = gpu->allocate({out, in}, Dtype::f32, MemoryKind::gradient),
             .shape = {out, in}};
    std::vector<double> second = values(w.v);
    for (double& x : second) x *= x;
    w.v = write(*gpu, *ops, flat, Dtype::f32, second);
    ops->fill(w.gradient, nan);
    return w;
  }

  // dx of the linear layer [rows, in] -> [rows, out].
  [[nodiscard]] std::vector<double> backward(const Weight& w, std::int64_t rows,
                                             WeightUpdate* update) const {
    Saved saved;
    saved.save({normal({1, rows, w.shape[1]}, Dtype::bf16, 4)});
    const Array dy = normal({1, rows, w.shape[0]}, Dtype::bf16, 5);
    return values(ops->linear_backward(saved, dy, w.parameter(update)));
  }
  [[nodiscard]] WeightUpdate update_of(const Weight& w) const {
    return {.range = w.range(), .state = &state, .config = with_decay};
  }

  TempFolder temp;
  EnvironmentVariable cache{"PACELINE_CACHE", temp.path().c_str()};
  std::unique_ptr<Device> gpu;
  std::unique_ptr<Ops> ops;
  StepState state;
};

void expect_close(const std::vector<double>& got, const std::vector<double>& want, double error,
                  const char* what) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double apart = std::abs(got[i] - want[i]) / (1 + std::abs(want[i]));
    largest = std::isnan(apart) ? apart : std::max(largest, apart);
    if (std::isnan(largest)) break;
  }
  EXPECT_LE(largest, error) << what;
}

// Tiles, parts of tiles, more tiles than multiprocessors; products of less than a stage, of whole
// stages, and of more stages than the ring has.
TEST_F(WeightUpdateTest, IsTheProductAndTheUpdate) {
  constexpr std::array<std::array<std::int64_t, 3>, 7> cases = {{{8, 8, 1},
                                                                 {128, 128, 64},
                                                                 {136, 200, 100},
                                                                 {392, 1000, 257},
                                                                 {1600, 1600, 1024},
                                                                 {2000, 2504, 65},
                                                                 {5000, 768, 512}}};
  for (const auto& [out, in, rows] : cases) {
    SCOPED_TRACE(testing::Message() << out << " x " << in << ", " << rows << " rows");
    const Weight want = weight(out, in);
    const std::vector<double> want_dx = backward(want, rows, nullptr);
    ops->adamw(want.range(), state, with_decay);

    const Weight got = weight(out, in);
    WeightUpdate update = update_of(got);
    EXPECT_TRUE(backward(got, rows, &update) == want_dx);  // of the weight before its update
    EXPECT_TRUE(update.taken);
    // The order of the additions differs.
    const double sum = 0x1p-21 * std::sqrt(static_cast<double>(rows));
    expect_close(values(got.m), values(want.m), sum, "m");
    expect_close(values(got.v), values(want.v), 4 * sum, "v");
    expect_close(values(got.p), values(want.p), sum, "the weight");
    expect_close(values(got.copy), values(want.copy), 0x1p-8, "the copy");
    for (const double x : values(got.gradient)) ASSERT_TRUE(std::isnan(x));  // never stored
  }
}

// Until there are enough elements or weights, a product over other rows or with other
// hyperparameters, or no more products.
TEST_F(WeightUpdateTest, WeightsWaitForOneAnother) {
  auto& fused = dynamic_cast<CudaFusedOps&>(*ops);
  struct Done {
    Weight weight;
    WeightUpdate update;
    std::vector<double> before;
  };
  const auto one = [&](std::int64_t out, std::int64_t in, std::int64_t rows,
                       const AdamWConfig& config = with_decay) {
    const Weight w = weight(out, in);
    Done done{.weight = w, .update = update_of(w), .before = values(w.p)};
    done.update.config = config;
    (void)backward(w, rows, &done.update);
    EXPECT_TRUE(done.update.taken);
    return done;
  };
  const auto updated = [&](const Done& done) { return values(done.weight.p) != done.before; };
  const auto expect_as_alone = [&](const Done& got, std::int64_t rows) {
    fused.limit_updates({});
    const Done want = one(got.weight.shape[0], got.weight.shape[1], rows, got.update.config);
    EXPECT_TRUE(values(got.weight.p) == values(want.weight.p));
    EXPECT_TRUE(values(got.weight.v) == values(want.weight.v));
  };
  fused.limit_updates({.at_once = 200 * 136 + 392 * 400});
  const Done first = one(200, 136, 100);
  EXPECT_FALSE(updated(first));
  const Done second = one(392, 400, 100);
  EXPECT_TRUE(updated(first) && updated(second));
  expect_as_alone(first, 100);
  expect_as_alone(second, 100);

  constexpr std::int64_t never = std::int64_t{1} << 40U;
  fused.limit_updates({.at_once = never});
  const Done other = one(128, 128, 64);
  std::vector<Done> most;
  for (std::size_t i = 0; i < max_weights_of_update; ++i) {
    EXPECT_EQ(updated(other), i > 0);  // products of 65 rows are not computed with it
    most.push_back(one(8 * (static_cast<std::int64_t>(i) + 1), 264, 65));
  }
  for (const Done& done : most) EXPECT_TRUE(updated(done));
  for (const Done& done : most) expect_as_alone(done, 65);

  fused.limit_updates({.at_once = never});
  AdamWConfig more_decay = with_decay;
  more_decay.weight_decay *= 2;
  const Done slow = one(128, 128, 64);
  const Done last = one(128, 128, 64, more_decay);
  EXPECT_TRUE(updated(slow));
  EXPECT_FALSE(updated(last));
  ops->apply_updates();
  EXPECT_TRUE(updated(last));
  expect_as_alone(slow, 64);
  expect_as_alone(last, 64);
}

TEST_F(WeightUpdateTest, ASkippedStepChangesNothing) {
  const Weight w = weight(136, 200);
  const std::vector<double> p = values(w.p);
  const std::vector<double> m = values(w.m);
  const std::vector<double> v = values(w.v);
  const std::vector<double> copy = values(w.copy);
  WeightUpdate update = update_of(w);
  state.set(*gpu, StepScalar::found_inf, 1);
  (void)backward(w, 100, &update);
  EXPECT_EQ(values(w.p), p);
  EXPECT_EQ(values(w.m), m);
  EXPECT_EQ(values(w.v), v);
  EXPECT_EQ(values(w.copy), copy);
}

TEST_F(WeightUpdateTest, OnlyWeightsWithinTheLimitsAreUpdated) {
  struct Case {
    std::int64_t out, in, rows;
    bool taken;
  };
  dynamic_cast<CudaFusedOps&>(*ops).limit_updates(
      {.min_rows = 64, .max_rows = 96, .min_elements = 128 * 128});
  for (const Case& c :
       {Case{128, 128, 64, true}, Case{120, 128, 64, false}, Case{128, 128, 63, false},
        Case{128, 128, 96, true}, Case{128, 128, 97, false}, Case{132, 128, 64, false},
        Case{128, 132, 64, false}}) {
    SCOPED_TRACE(testing::Message() << c.out << " x " << c.in << ", " << c.rows << " rows");
    const Weight w = weight(c.out, c.in);
    const std::vector<double> p = values(w.p);
    WeightUpdate update = update_of(w);
    (void)backward(w, c.rows, &update);
    EXPECT_EQ(update.taken, c.taken);
    EXPECT_EQ(values(w.p) == p, !c.taken);
    for (const double x : values(w.gradient)) ASSERT_EQ(std::isnan(x), c.taken);
  }
}

TEST_F(WeightUpdateTest, GradientsThatAddUpAreNotUpdatedNorWithDeterministic) {
  const Weight w = weight(128, 128);
  WeightUpdate update = update_of(w);
  Parameter parameter = w.parameter(&update);
  parameter.accumulate = true;
  const auto linear_backward = [&](Ops& of) {
    Saved saved;
    saved.save({normal({1, 64, 128}, Dtype::bf16, 4)});
    (void)of.linear_backward(saved, normal({1, 64, 128}, Dtype::bf16, 5), parameter);
  };
  linear_backward(*ops);
  EXPECT_FALSE(update.taken);
  parameter.accumulate = false;
  const auto deterministic = gpu->make_ops({.precision = precision_named("bf16"),
                                            .deterministic = true,
                                            .execution = Execution::compiled});
  dynamic_cast<CudaFusedOps&>(*deterministic).limit_updates({});
  linear_backward(*deterministic);
  EXPECT_FALSE(update.taken);
  linear_backward(*ops);
  EXPECT_TRUE(update.taken);
}

}  // namespace
}  // namespace paceline
