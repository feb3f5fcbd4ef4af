// A whole training step on the GPU.

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/ops.h"
#include "cuda/cuda_backend.h"
#include "model/batch.h"
#include "model/optimizer.h"
#include "model/transformer.h"
#include "model/weights_file.h"
#include "parallel/parallel_strategy.h"
#include "tests/oracle/oracle.h"

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

}  // namespace
}  // namespace paceline
