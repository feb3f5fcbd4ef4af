// A whole training step on the GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/ops.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_fused_ops.h"
#include "cuda/runtime/current_device.h"
#include "experiments/training/step_runner.h"
#include "experiments/training/training_run.h"
#include "harness/case_run.h"
#include "model/batch.h"
#include "model/optimizer.h"
#include "model/transformer.h"
#include "model/weights_file.h"
#include "parallel/parallel_strategy.h"
#include "tests/oracle/oracle.h"
#include "tests/unit/environment_variable.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

constexpr ModelConfig config{
    .vocab = 97, .context = 24, .d_model = 64, .d_ff = 96, .layers = 2, .heads = 4};
constexpr std::int64_t batch_size = 3;

class CudaStepTest : public ::testing::TestWithParam<std::tuple<const char*, Execution>> {
 protected:
  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    const auto [name, execution] = GetParam();
    const Precision precision = precision_named(name);
    device = make_cuda_device(0, std::nullopt, 1);
    ops = device->make_ops({.precision = precision, .deterministic = true, .execution = execution});
    model = std::make_unique<Transformer>(*device, config, precision);
    strategy = std::make_unique<ParallelStrategy>(model->store());
    optimizer =
        std::make_unique<AdamW>(model->store(), AdamWConfig{}, Shard::whole(model->store()));
    state = StepState::create(*device, batch_size, config.context, precision.loss,
                              precision.loss_scaling, 1e-3);
    const Batch batch =
        random_batch({.rows = batch_size, .context = config.context, .vocab = config.vocab}, 1);
    device->to_device(state.tokens, batch.tokens.data());
    device->to_device(state.targets, batch.targets.data());
    reset();
  }
  void reset() {
    initialise_weights(*ops, model->store(), 5);
    optimizer->reset(*device);
    state.reset(*device, ops->precision().loss_scaling, 1e-3);
  }
  void step() {
    model->forward(*ops, state, *strategy, {.keep = true});
    model->store().allocate_gradients();
    model->backward(*ops, state, *strategy);
    optimizer->step(*ops, state);
  }
  std::vector<float> weights() {
    const Tensor flat = model->store().parameters();
    std::vector<float> host(static_cast<std::size_t>(flat.numel()));
    device->to_host(host.data(), flat);
    return host;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Transformer> model;
  std::unique_ptr<Optimizer> optimizer;
  StepState state;
  std::unique_ptr<ParallelStrategy> strategy;
};

// Capture fails on any synchronisation, copy from pageable memory or driver allocation, so this
// also shows that a steady-state step has none.
TEST_P(CudaStepTest, ASecondRunAndOneCapturedWholeAreBitwiseEqual) {
  for (int i = 0; i < 3; ++i) step();
  const std::vector<float> once = weights();
  reset();
  EXPECT_NE(weights(), once);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(weights(), once);
  reset();
  device->freeze();
  const std::unique_ptr<Graph> graph = device->capture(device->compute_stream(), [&] { step(); });
  for (int i = 0; i < 3; ++i) graph->launch();
  device->synchronize();
  EXPECT_EQ(weights(), once);
}

// Gradients from the same weights agree within a few roundings, with and without recomputation.
TEST_P(CudaStepTest, GradientsAreEagers) {
  const Precision precision = ops->precision();
  const bool half = size_of(precision.compute) == 2;
  const double tolerance = half ? 0.02 : precision.gemm == GemmMath::tf32 ? 0.01 : 1e-4;
  state.set(*device, StepScalar::loss_scale, precision.loss_scaling ? 1024 : 1);
  model->store().allocate_gradients();
  const auto gradients_by = [&](Execution execution, AttentionKind attention, int recompute) {
    ops = device->make_ops({.precision = precision,
                            .attention = attention,
                            .deterministic = true,
                            .execution = execution});
    ops->fill(model->store().gradients(), std::numeric_limits<double>::quiet_NaN());
    model->forward(*ops, state, *strategy, {.keep = true, .recompute = recompute});
    model->backward(*ops, state, *strategy);
    return read(*device, *ops, model->store().gradients());
  };
  for (const AttentionKind attention : {AttentionKind::naive, AttentionKind::flash}) {
    const std::vector<double> want = gradients_by(Execution::eager, attention, 0);
    const double loss = read(*device, *ops, state.loss)[0];
    for (const int recompute : {0, 1}) {
      const std::vector<double> got =
          gradients_by(std::get<Execution>(GetParam()), attention, recompute);
      EXPECT_NEAR(read(*device, *ops, state.loss)[0], loss, 0.1 * tolerance * loss);
      for (const ParameterEntry& entry : model->store().entries()) {
        const auto of_entry = [&](const std::vector<double>& all) {
          const auto first = all.begin() + entry.offset;
          return std::vector<double>(first, first + entry.shape.numel());
        };
        EXPECT_LT(distance(of_entry(got), of_entry(want), 0), tolerance)
            << entry.views.front().name << " " << name_of(attention) << " " << recompute;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaStepTest,
                         ::testing::Combine(::testing::Values("fp32", "tf32", "bf16", "fp16"),
                                            ::testing::Values(Execution::eager,
                                                              Execution::compiled)));

TrainingCase small_case(const char* precision, Execution execution) {
  TrainingCase c;
  c.device = DeviceKind::cuda;
  c.size = ModelSize::custom;
  c.d_model = 128;
  c.d_ff = 384;
  c.layers = 3;
  c.heads = 4;
  c.vocab = 211;
  c.context = 64;
  c.batch_size = 3;
  c.precision = precision_named(precision);
  c.execution = execution;
  c.deterministic = true;
  return c;
}

class CompiledStepTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    device = make_cuda_device(0, std::nullopt, 1);
  }

  // A rehearsed step with its initial weights.
  struct Trained {
    using Configure = std::function<void(CudaFusedOps&)>;
    Trained(Device& device, const TrainingCase& c, const Configure& configure = nullptr)
        : step(device, c, 1, {},
               [&](ParameterStore& store, Ops& ops) {
                 return make_strategy(c.strategy_config(), store, ops, nullptr);
               }),
          runner(step, c.timing) {
      if (c.recycles_gradients()) step.recycle_gradients();
      if (configure) configure(dynamic_cast<CudaFusedOps&>(step.ops()));
      step.load(c.rows(0, c.batch_size));
      step.reset();
      (void)runner.rehearse();
      device.freeze();
      step.reset();
    }
    std::vector<float> values(const Tensor& flat) {
      std::vector<float> host(static_cast<std::size_t>(flat.numel()));
      step.device().to_host(host.data(), flat);
      return host;
    }

    TrainingStep step;
    StepRunner runner;
  };

  TempFolder temp;
  EnvironmentVariable cache{"PACELINE_CACHE", temp.path().c_str()};
  std::unique_ptr<Device> device;
};

// With default products, and with tuned products, whose bits are the same within a run.
TEST_P(CompiledStepTest, ReplaysAreBitwiseTheLaunchedStep) {
  for (const Timing timing : {Timing::phases, Timing::step}) {
    for (const bool deterministic : {true, false}) {
      TrainingCase c = small_case(GetParam(), Execution::compiled);
      c.timing = timing;
      c.deterministic = deterministic;
      Trained t(*device, c);
      EXPECT_EQ(t.step.ops().product_tuning() == nullptr, deterministic);
      for (int i = 0; i < 3; ++i) (void)t.runner.run();
      const std::vector<float> launched = t.values(t.step.model().store().parameters());
      t.step.reset();
      t.runner.capture();
      for (int i = 0; i < 3; ++i) (void)t.runner.replay();
      EXPECT_EQ(t.values(t.step.model().store().parameters()), launched);
      device->trim();
    }
  }
}

TEST_P(CompiledStepTest, ReplayedPhasesAreTimed) {
  for (const Timing timing : {Timing::phases, Timing::step}) {
    TrainingCase c = small_case(GetParam(), Execution::compiled);
    c.timing = timing;
    Trained t(*device, c);
    t.runner.capture();
    EXPECT_GT(t.runner.nodes().kernels, 30);
    const PhaseSeconds seconds = t.runner.replay();
    ASSERT_EQ(seconds.size(), t.runner.phases().size());
    double sum = 0;
    for (std::size_t i = 0; i + 1 < seconds.size(); ++i) {
      EXPECT_GT(seconds[i], 0);
      sum += seconds[i];
    }
    EXPECT_LE(sum, seconds.back());
    device->trim();
  }
}

// With recycled memory, gradients are overwritten while updates run. In a graph as well, this must
// happen only after the update that reads them.
TEST_P(CompiledStepTest, TrainsTheSameWhereUpdatesInBackwardRecycleGradients) {
  if (precision_named(GetParam()).loss_scaling) return;
  const auto trained = [&](OptimizerOrder order, bool replays) {
    TrainingCase c = small_case(GetParam(), Execution::compiled);
    c.optimizer = order;
    Trained t(*device, c);
    EXPECT_EQ(t.step.model().store().has_window(), order == OptimizerOrder::in_backward);
    if (replays) t.runner.capture();
    for (int i = 0; i < 10; ++i) (void)(replays ? t.runner.replay() : t.runner.run());
    std::vector<float> weights = t.values(t.step.model().store().parameters());
    EXPECT_EQ(t.step.divergence(), "");
    device->trim();
    return weights;
  };
  const std::vector<float> want = trained(OptimizerOrder::serial, true);
  EXPECT_EQ(trained(OptimizerOrder::in_backward, false), want);
  EXPECT_EQ(trained(OptimizerOrder::in_backward, true), want);
}

// Updates as epilogues of products, of every weight. Replays are the launched step; training is
// that of serial updates but for the order of sums.
TEST_P(CompiledStepTest, TrainsAsSerialUpdatesDoWhereProductsUpdateWeights) {
  if (precision_named(GetParam()).compute != Dtype::bf16) return;
  if (compute_capability() != 90) GTEST_SKIP() << "no Hopper GPU here";
  struct Outcome {
    std::vector<double> losses;
    std::vector<float> first, weights;
    std::vector<StoreRange> ranges;  // of each weight
  };
  const auto trained = [&](OptimizerOrder order, bool replays, std::int64_t at_once = 1) {
    TrainingCase c = small_case(GetParam(), Execution::compiled);
    c.optimizer = order;
    c.deterministic = false;
    Trained t(*device, c, [&](CudaFusedOps& ops) { ops.limit_updates({.at_once = at_once}); });
    const std::vector<Fusion> fusions = t.step.ops().fusions();
    EXPECT_EQ(std::any_of(fusions.begin(), fusions.end(),
                          [](const Fusion& f) { return f.kernel == "sm90_weight_update"; }),
              order == OptimizerOrder::in_backward);
    if (replays) t.runner.capture();
    const ParameterStore& store = t.step.model().store();
    Outcome outcome{.first = t.values(store.parameters())};
    for (int i = 0; i < 10; ++i) {
      (void)(replays ? t.runner.replay() : t.runner.run());
      outcome.losses.push_back(t.step.loss());
    }
    outcome.weights = t.values(store.parameters());
    for (const ParameterEntry& entry : store.entries()) outcome.ranges.push_back(entry.range());
    device->trim();
    return outcome;
  };
  const Outcome serial = trained(OptimizerOrder::serial, true);
  const Outcome launched = trained(OptimizerOrder::in_backward, false);
  const Outcome replayed = trained(OptimizerOrder::in_backward, true);
  EXPECT_EQ(replayed.losses, launched.losses);
  EXPECT_EQ(replayed.weights, launched.weights);
  for (const std::int64_t at_once : {200'000, 1'000'000'000}) {
    EXPECT_EQ(trained(OptimizerOrder::in_backward, true, at_once).weights, launched.weights);
  }
  for (std::size_t i = 0; i < serial.losses.size(); ++i) {
    EXPECT_NEAR(replayed.losses[i], serial.losses[i], 0.002 * serial.losses[i]) << "step " << i;
  }
  for (const StoreRange& range : serial.ranges) {
    double apart = 0;
    double change = 0;
    for (std::int64_t k = range.offset; k < range.offset + range.length; ++k) {
      const auto i = static_cast<std::size_t>(k);
      apart += std::pow(replayed.weights[i] - serial.weights[i], 2);
      change += std::pow(serial.weights[i] - serial.first[i], 2);
    }
    EXPECT_LE(apart, 0.01 * change) << "the weight at " << range.offset;
  }
}

// Counting the kernels of a step works for both executions and leaves eager execution unchanged.
TEST_P(CompiledStepTest, HasFewerKernelsThanEagerExecution) {
  const auto kernels = [&](Execution execution) {
    const TrainingCase c = small_case(GetParam(), execution);
    Trained t(*device, c);
    (void)t.runner.run();
    const std::vector<float> before = t.values(t.step.model().store().parameters());
    const std::int64_t counted = t.runner.nodes().kernels;
    EXPECT_EQ(t.values(t.step.model().store().parameters()), before);
    EXPECT_FALSE(t.runner.captured());
    (void)t.runner.run();
    t.runner.capture();
    EXPECT_EQ(t.runner.nodes().kernels, counted);
    device->trim();
    return counted;
  };
  EXPECT_LT(kernels(Execution::compiled), kernels(Execution::eager));
}

// A graph sees new tokens, because it reads the buffer that load() writes.
TEST_P(CompiledStepTest, TokensChangeBetweenReplays) {
  const TrainingCase c = small_case(GetParam(), Execution::compiled);
  Trained t(*device, c);
  t.runner.capture();
  std::vector<double> losses;
  for (const std::int64_t row : {0, 3, 0}) {
    t.step.reset();
    t.step.load(c.rows(row, c.batch_size));
    (void)t.runner.replay();
    losses.push_back(t.step.loss());
  }
  EXPECT_NE(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
}

// Over twenty steps: the loss of every step, and the gradients of the first and the last step.
TEST_P(CompiledStepTest, TrainsAsEagerExecutionDoes) {
  const bool half = precision_named(GetParam()).compute != Dtype::f32;
  const double close = half                                                  ? 0.02
                       : precision_named(GetParam()).gemm == GemmMath::exact ? 2e-4
                                                                             : 5e-3;
  struct Outcome {
    std::vector<double> losses;
    std::vector<std::vector<float>> gradients;
  };
  const auto train = [&](Execution execution, AttentionKind attention) {
    TrainingCase c = small_case(GetParam(), execution);
    c.attention = attention;
    Trained t(*device, c);
    if (execution == Execution::compiled) t.runner.capture();
    Outcome outcome;
    for (int i = 0; i < 20; ++i) {
      (void)(execution == Execution::compiled ? t.runner.replay() : t.runner.run());
      outcome.losses.push_back(t.step.loss());
      if (i % 19 == 0) outcome.gradients.push_back(t.values(t.step.model().store().gradients()));
    }
    device->trim();
    return outcome;
  };
  for (const AttentionKind attention :
       {AttentionKind::naive, AttentionKind::fused, AttentionKind::flash}) {
    SCOPED_TRACE(name_of(attention));
    const Outcome eager = train(Execution::eager, attention);
    const Outcome compiled = train(Execution::compiled, attention);
    for (std::size_t i = 0; i < eager.losses.size(); ++i) {
      EXPECT_NEAR(compiled.losses[i], eager.losses[i], close * eager.losses[i]) << "step " << i;
    }
    for (std::size_t g = 0; g < eager.gradients.size(); ++g) {
      double apart = 0;
      double norm = 0;
      for (std::size_t i = 0; i < eager.gradients[g].size(); ++i) {
        apart += std::pow(compiled.gradients[g][i] - eager.gradients[g][i], 2);
        norm += std::pow(eager.gradients[g][i], 2);
      }
      EXPECT_LE(std::sqrt(apart / norm), 5 * close) << "gradients " << g;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, CompiledStepTest,
                         ::testing::Values("fp32", "tf32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
