// A whole training step on the GPU.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ops.h"
#include "cuda/cuda_backend.h"
#include "model/batch.h"
#include "model/optimizer.h"
#include "model/transformer.h"
#include "model/weights_file.h"
#include "parallel/parallel_strategy.h"

namespace paceline {
namespace {

constexpr ModelConfig config{
    .vocab = 97, .context = 24, .d_model = 64, .d_ff = 96, .layers = 2, .heads = 4};
constexpr std::int64_t batch_size = 3;

class CudaStepTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (gpu_of_rank(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    const Precision precision = precision_named(GetParam());
    device = make_cuda_device(0, std::nullopt, 1);
    ops = device->make_ops({.precision = precision, .deterministic = true});
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

// A capture fails at any synchronisation, copy from pageable memory or allocation from the driver,
// so that a steady step has none.
TEST_P(CudaStepTest, CapturedWholeItEqualsTheEagerStep) {
  for (int i = 0; i < 3; ++i) step();
  const std::vector<float> eager = weights();
  reset();
  device->freeze();
  const std::unique_ptr<Graph> graph = device->capture(device->compute_stream(), [&] { step(); });
  for (int i = 0; i < 3; ++i) graph->launch();
  device->synchronize();
  EXPECT_EQ(weights(), eager);
}

TEST_P(CudaStepTest, TwoRunsAreBitwiseEqual) {
  for (int i = 0; i < 3; ++i) step();
  const std::vector<float> once = weights();
  reset();
  EXPECT_NE(weights(), once);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(weights(), once);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaStepTest,
                         ::testing::Values("fp32", "tf32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
