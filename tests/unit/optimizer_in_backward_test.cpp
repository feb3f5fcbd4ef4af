#include "parallel/optimizer_in_backward.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
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
    AdamW optimizer(store, with_decay, shard);
    draw(store.parameters(), 0);
    state.reset(device, false, 0.01);
    for (std::uint64_t k = 1; k <= train_steps; ++k) {
      draw(store.gradients(), k);
      step(optimizer);
      device.synchronize();
    }
    const std::vector<float> all = get_floats(device, store.parameters());
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
  // Begins a step of this optimizer that may be fused.
  OptimizerInBackward& begin(Optimizer& optimizer) {
    in_backward_of_step.emplace(*ops, optimizer, state);
    in_backward_of_step->allow_fusion();
    in_backward_of_step->begin();
    return *in_backward_of_step;
  }
  // Updates the ranges in this order; finish() updates the rest.
  std::vector<float> in_backward(const Shard& shard, const std::vector<StoreRange>& ranges) {
    return train(shard, [&, this](Optimizer& o) {
      OptimizerInBackward& updates = begin(o);
      for (const StoreRange& r : ranges) updates.update(r, device.compute_stream());
      updates.finish(store.entries());
      updated = updates.updates().size();
    });
  }

  CpuDevice device{plenty, 1};
  std::unique_ptr<Ops> ops = device.make_ops({.precision = precision_named("fp32")});
  ParameterStore store{device, precision_named("fp32"), three_entries()};
  StepState state = StepState::create(device, 1, 1, Dtype::f32, false, 0.01);
  std::optional<OptimizerInBackward> in_backward_of_step;
  std::size_t updated = 0;  // ranges in the last step of in_backward()
};

TEST_F(OptimizerInBackwardTest, RangesInAnyOrderAreTheSerialStep) {
  const Shard whole = Shard::whole(store);
  const std::vector<float> want = serial(whole);
  const std::vector<ParameterEntry>& entries = store.entries();
  EXPECT_EQ(in_backward(whole, {entries[0].range(), entries[1].range(), entries[2].range()}), want);
  EXPECT_EQ(updated, 3U);  // padding is not updated
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

// An update that a product took is not done again, neither at once nor at the end.
TEST_F(OptimizerInBackwardTest, AnUpdateThatIsTakenIsDoneOnce) {
  const std::vector<ParameterEntry>& entries = store.entries();
  const StoreRange first = entries[0].range();
  const StoreRange second = entries[1].range();
  AdamW optimizer(store, with_decay, Shard::whole(store));
  draw(store.parameters(), 0);
  draw(store.gradients(), 1);
  state.reset(device, false, 0.01);
  const auto values = [this](const StoreRange& range) {
    return get_floats(device, store.parameters(range));
  };
  const std::vector<float> first_before = values(first);
  const std::vector<float> second_before = values(second);
  OptimizerInBackward& updates = begin(optimizer);
  WeightUpdate* const taken = updates.offer(first);
  WeightUpdate* const ignored = updates.offer(second);
  ASSERT_NE(taken, nullptr);
  ASSERT_NE(ignored, nullptr);
  EXPECT_EQ(taken->range.parameters.data, store.parameters(first).data);
  EXPECT_EQ(taken->range.m.data, optimizer.m().data);
  taken->taken = true;
  updates.update(first, device.compute_stream());
  updates.update(second, device.compute_stream());
  updates.wait_for_update(device.compute_stream(), first);
  updates.finish(entries);
  device.synchronize();
  EXPECT_EQ(values(first), first_before);
  EXPECT_NE(values(second), second_before);
  EXPECT_EQ(updates.updates().at(0).end, nullptr);
  EXPECT_NE(updates.updates().at(1).end, nullptr);

  updates.begin();  // nothing is taken yet in the next step
  updates.update(first, device.compute_stream());
  updates.finish(entries);
  device.synchronize();
  EXPECT_NE(values(first), first_before);
}

TEST_F(OptimizerInBackwardTest, OnlyFusedUpdatesWithinOneRangeOfTheShardAreOffered) {
  const StoreRange first = store.entries()[0].range();
  AdamW shards(store, with_decay, {.ranges = {{0, 256}, {512, 512}}, .agree = nullptr});
  OptimizerInBackward& of_shards = begin(shards);
  EXPECT_EQ(of_shards.offer(first), nullptr);
  WeightUpdate* const within = of_shards.offer({640, 128});
  ASSERT_NE(within, nullptr);
  EXPECT_EQ(within->range.m.as<float>(), shards.m().as<float>() + 256 + 128);
  Sgd sgd(store, 0.1, Shard::whole(store));
  EXPECT_EQ(begin(sgd).offer(first), nullptr);
  AdamW adamw(store, with_decay, Shard::whole(store));
  OptimizerInBackward unfused(*ops, adamw, state);
  unfused.begin();
  EXPECT_EQ(unfused.offer(first), nullptr);
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
  AdamW optimizer(five, with_decay, Shard::whole(five));
  state.reset(device, false, 0.01);
  OptimizerInBackward& updates = begin(optimizer);
  access.update_in_backward(updates);
  for (ParameterId id = 0; id < 4; ++id) {
    EXPECT_NO_THROW((void)access.acquire(id, Pass::backward));
  }
  EXPECT_NO_THROW((void)access.acquire(4, Pass::forward));
  EXPECT_THROW((void)access.acquire(4, Pass::backward), InternalError);
  const auto update = [&](ParameterId id) {
    updates.update(five.entries()[id].range(), device.compute_stream());
  };
  update(0);
  EXPECT_EQ(access.acquire(4, Pass::backward).gradient.data,
            access.acquire(0, Pass::forward).gradient.data);
  for (ParameterId id = 1; id < 5; ++id) update(id);
  updates.finish(five.entries());
  device.synchronize();
}

// A gradient may overwrite the memory of several groups: waiting for the latest is waiting for all,
// also if a product took the latest one's update.
TEST_F(OptimizerInBackwardTest, AWaitIncludesEarlierUpdatesOnTheStream) {
  const StoreRange first = store.entries()[0].range();
  const StoreRange second = store.entries()[1].range();
  AdamW optimizer(store, with_decay, Shard::whole(store));
  state.reset(device, false, 0.01);
  OptimizerInBackward& updates = begin(optimizer);
  std::promise<void> release;
  std::atomic<bool> first_updated = false;
  device.optimizer_stream().enqueue([&] {
    release.get_future().wait();
    first_updated = true;
  });
  updates.update(first, device.compute_stream());
  updates.offer(second)->taken = true;
  updates.update(second, device.compute_stream());
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    release.set_value();
  });
  updates.wait_for_update(device.compute_stream(), second);
  EXPECT_TRUE(first_updated);
  later.join();
  updates.finish(store.entries());
  device.synchronize();
}

// Its first use must not change the weight that the second one reads.
TEST_F(OptimizerInBackwardTest, UpdatesOfTiedWeightsAreNotOffered) {
  std::vector<ParameterEntry> entries = three_entries();
  entries[1].uses = 2;
  ParameterStore tied(device, precision_named("fp32"), entries);
  tied.allocate_gradients();
  ParallelStrategy access(tied);
  AdamW optimizer(tied, with_decay, Shard::whole(tied));
  access.update_in_backward(begin(optimizer));
  EXPECT_NE(access.acquire(0, Pass::backward).update, nullptr);
  EXPECT_EQ(access.acquire(0, Pass::forward).update, nullptr);
  EXPECT_EQ(access.acquire(1, Pass::backward).update, nullptr);
}

}  // namespace
}  // namespace paceline
