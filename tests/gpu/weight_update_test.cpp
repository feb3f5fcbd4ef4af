// A weight's update as the epilogue of its gradient's product, against the product and the update
// one after the other.

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
