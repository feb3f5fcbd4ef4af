#include "parallel/optimizer_in_backward.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "cpu/cpu_device.h"
#include "parallel/parallel_strategy.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

constexpr int train_steps = 3;
constexpr AdamWConfig with_decay{.weight_decay = 0.1};
constexpr AdamWConfig at_half_rate{.rate_factor = 0.5};

// 1000, 300 and 77 elements, each entry padded to a multiple of 128.
std::vector<ParameterEntry> three_entries() {
  std::vector<ParameterEntry> entries;
  for (const std::int64_t n : {1000, 300, 77}) {
    entries.push_back({.views = {{fmt::format("w{}", n), {n}}}, .shape = {n}});
  }
  return entries;
}

class OptimizerInBackwardTest : public ::testing::Test {
 protected:
  OptimizerInBackwardTest() { store.allocate_gradients(); }

  void draw(const Tensor& flat, std::uint64_t stream) {
    std::vector<float> values(static_cast<std::size_t>(flat.numel()));
    Random(5, stream).fill_normal(values);
    device.to_device(flat, values.data());
  }
  // Draws new gradients and calls step(optimizer), several times.
  template <class Step>
  std::vector<float> train(const Shard& shard, const Step& step) {
    AdamW optimizer(store, {{with_decay, {0, 2}}, {at_half_rate, {1}}}, shard);
    draw(store.parameters(), 0);
    state.reset(device, false, 0.01);
    for (std::uint64_t k = 1; k <= train_steps; ++k) {
      draw(store.gradients(), k);
      step(optimizer);
      device.synchronize();
    }
    std::vector<float> all(static_cast<std::size_t>(store.size()));
    device.to_host(all.data(), store.parameters());
    std::vector<float> weights;  // without padding
    for (const ParameterEntry& entry : store.entries()) {
      const auto from = all.begin() + entry.range().offset;
      weights.insert(weights.end(), from, from + entry.range().length);
    }
    return weights;
  }
  std::vector<float> serial(const Shard& shard) {
    return train(shard, [this](Optimizer& o) { o.step(*ops, state); });
  }
  // Updates the ranges in this order; finish() updates the rest.
  std::vector<float> in_backward(const Shard& shard, const std::vector<StoreRange>& ranges) {
    return train(shard, [&, this](Optimizer& o) {
      updates.begin(o, state);
      for (const StoreRange& r : ranges) updates.update(o, state, r, device.compute_stream());
      updates.finish(o, state, store.entries());
    });
  }

  CpuDevice device{plenty, 1};
  std::unique_ptr<Ops> ops = device.make_ops({.precision = precision_named("fp32")});
  ParameterStore store{device, precision_named("fp32"), three_entries()};
  StepState state = StepState::create(device, 1, 1, Dtype::f32, false, 0.01);
  OptimizerInBackward updates{*ops};
};

TEST_F(OptimizerInBackwardTest, RangesInAnyOrderAreTheSerialStep) {
  const Shard whole = Shard::whole(store);
  const std::vector<float> want = serial(whole);
  const std::vector<ParameterEntry>& entries = store.entries();
  EXPECT_EQ(in_backward(whole, {entries[0].range(), entries[1].range(), entries[2].range()}), want);
  EXPECT_EQ(updates.updates().size(), 3U);  // padding is not updated
  EXPECT_EQ(in_backward(whole, {{896, 256}, {0, 128}, {128, 768}}), want);
}

TEST_F(OptimizerInBackwardTest, FinishUpdatesWhatIsLeft) {
  const Shard whole = Shard::whole(store);
  const std::vector<float> want = serial(whole);
  const StoreRange begin{0, 256};
  const StoreRange middle{384, 512};
  const StoreRange end{store.size() - 128, 128};
  for (const std::vector<StoreRange>& ranges :
       {std::vector<StoreRange>{}, {begin}, {middle}, {end}, {end, begin}, {middle, end, begin}}) {
    EXPECT_EQ(in_backward(whole, ranges), want) << ranges.size() << " ranges";
  }
}

TEST_F(OptimizerInBackwardTest, OfAShardAreTheSerialStepOfTheShard) {
  const Shard shard{.ranges = {{128, 256}, {768, 512}}, .agree = nullptr};
  const std::vector<float> want = serial(shard);
  EXPECT_NE(want, serial(Shard::whole(store)));
  EXPECT_EQ(in_backward(shard, {{896, 128}, {0, 256}}), want);
}

// The window has room for four of five equal gradients.
TEST_F(OptimizerInBackwardTest, AGradientWaitsForTheUpdateThatReadsItsMemory) {
  std::vector<ParameterEntry> entries;
  for (int i = 0; i < 5; ++i) {
    entries.push_back({.views = {{fmt::format("w{}", i), {128}}}, .shape = {128}});
  }
  ParameterStore five(device, precision_named("fp32"), entries);
  five.recycle_gradients(4);
  five.allocate_gradients();
  ParallelStrategy access(five);
  access.before_overwriting([this](Stream& stream, const StoreRange& range) {
    updates.wait_for_update(stream, range.offset);
  });
  AdamW optimizer(five, with_decay, Shard::whole(five));
  state.reset(device, false, 0.01);
  updates.begin(optimizer, state);
  for (ParameterId id = 0; id < 4; ++id) {
    EXPECT_NO_THROW((void)access.acquire(id, Pass::backward));
  }
  EXPECT_NO_THROW((void)access.acquire(4, Pass::forward));
  EXPECT_THROW((void)access.acquire(4, Pass::backward), InternalError);
  const auto update = [&](ParameterId id) {
    updates.update(optimizer, state, five.entries()[id].range(), device.compute_stream());
  };
  update(0);
  EXPECT_EQ(access.acquire(4, Pass::backward).gradient.data,
            access.acquire(0, Pass::forward).gradient.data);
  for (ParameterId id = 1; id < 5; ++id) update(id);
  updates.finish(optimizer, state, five.entries());
  device.synchronize();
}

}  // namespace
}  // namespace paceline
