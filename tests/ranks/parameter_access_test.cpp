// ParameterAccess between a model and a strategy, tested with a strategy that keeps the parameters
// elsewhere, copies each into one of two slots at or before its acquire, and poisons the slot at
// its release. Every rank trains on its own.
//   parameter_access_test mpi|nccl [GoogleTest's options]

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "experiments/training/training_step.h"
#include "tests/ranks/rank_test.h"
#include "tests/unit/tiny_training.h"

namespace paceline {
namespace {

constexpr double poison = std::numeric_limits<double>::quiet_NaN();
using Use = std::pair<ParameterId, Pass>;

class TwoSlots final : public ParallelStrategy {
 public:
  // copies: a communicator of this rank alone, whose all_reduce copies on the communication stream.
  // forgotten: a use whose copy is omitted.
  TwoSlots(ParameterStore& store, Ops& ops, Communicator& copies, std::optional<Use> forgotten,
           int& fetched_ahead)
      : ParallelStrategy(store),
        ops_(ops),
        copies_(copies),
        forgotten_(forgotten),
        fetched_ahead_(fetched_ahead) {
    std::int64_t most = 0;
    for (const ParameterEntry& e : store.entries()) most = std::max(most, e.shape.numel());
    Device& device = ops.device();
    const auto like = [&](const Tensor& x, std::int64_t n) {
      if (x.empty()) return Array{};
      Array array = device.allocate({n}, x.dtype, MemoryKind::parameter);
      ops.fill(array, poison);
      return array;
    };
    home_ = {like(store.parameters(), store.size()), like(store.copy(), store.size())};
    for (Slot& slot : slots_) {
      slot.value = like(store.parameters(), most);
      slot.copy = like(store.copy(), most);
    }
  }

  // Moves the parameters to their storage and fills the store with NaN.
  void begin_step() override {
    schedule_ = std::exchange(order_, {});
    move(home_.value, store_.parameters());
    move(home_.copy, store_.copy());
  }

  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override {
    order_.emplace_back(id, pass);
    if (forgotten_ == Use{id, pass}) return store_.parameter(id);
    Slot& slot = slot_with(id);
    EXPECT_FALSE(slot.in_use);
    slot.in_use = true;
    ops_.device().compute_stream().wait(slot.arrived);
    fetch_ahead();
    Parameter p = store_.parameter(id);
    const Shape& shape = store_.entries()[id].shape;
    p.value = slot.value.tensor().slice(0, shape);
    p.compute = slot.copy.empty() ? p.value : slot.copy.tensor().slice(0, shape);
    return p;
  }

  void release(ParameterId id, Pass pass) override {
    if (forgotten_ == Use{id, pass}) return;
    for (Slot& slot : slots_) {
      if (slot.holds != id || !slot.in_use) continue;
      ops_.fill(slot.value, poison);
      if (!slot.copy.empty()) ops_.fill(slot.copy, poison);
      slot.holds.reset();
      slot.in_use = false;
      return;
    }
    ADD_FAILURE() << "released, but not acquired: " << id;
  }

  // Copies the parameters back for the optimizer.
  void finish_backward() override {
    for (const Slot& slot : slots_) EXPECT_FALSE(slot.in_use);
    move(store_.parameters(), home_.value);
    move(store_.copy(), home_.copy);
  }
  [[nodiscard]] bool communicates() const override { return true; }

 private:
  struct Slot {
    Array value;
    Array copy;
    std::optional<ParameterId> holds;
    bool in_use = false;
    EventPtr arrived;
  };
  struct Home {
    Array value;
    Array copy;
  };

  void move(const Tensor& to, const Tensor& from) {
    if (from.empty()) return;
    ops_.cast(to, from);
    ops_.fill(from, poison);
  }

  Slot& slot_with(ParameterId id) {
    for (Slot& slot : slots_) {
      if (slot.holds == id && !slot.in_use) return slot;
    }
    Slot* free = free_slot();
    if (free == nullptr) throw InternalError("more than two parameters are in use at once");
    fetch(*free, id);
    return *free;
  }

  Slot* free_slot() {
    for (Slot& slot : slots_) {
      if (!slot.in_use) return &slot;
    }
    return nullptr;
  }

  // Copies what the last step acquired next, if a slot is free.
  void fetch_ahead() {
    if (order_.size() >= schedule_.size()) return;
    EXPECT_EQ(order_.back(), schedule_[order_.size() - 1]);
    Slot* free = free_slot();
    if (free == nullptr || schedule_[order_.size()] == forgotten_) return;
    fetch(*free, schedule_[order_.size()].first);
    ++fetched_ahead_;
  }

  void fetch(Slot& slot, ParameterId id) {
    const ParameterEntry& entry = store_.entries()[id];
    const StoreRange range = entry.range();
    copies_.stream().wait(ops_.device().compute_stream().record());
    const auto bring = [&](const Tensor& to, const Tensor& from) {
      if (from.empty()) return;
      copies_.all_reduce(to.slice(0, {range.length}), range.of(from), ReduceOp::sum);
    };
    bring(slot.value, home_.value);
    bring(slot.copy, home_.copy);
    slot.arrived = copies_.stream().record();
    slot.holds = id;
  }

  Ops& ops_;
  Communicator& copies_;
  std::optional<Use> forgotten_;
  Home home_;
  std::array<Slot, 2> slots_;
  std::vector<Use> order_;     // acquires of this step
  std::vector<Use> schedule_;  // acquires of the last step
  int& fetched_ahead_;         // copies made before the acquire
};

TrainingCase small(const char* precision, int recompute) {
  TrainingCase c = tiny_training(precision);
  c.recompute = {.blocks = recompute};
  c.deterministic = true;
  return c;
}

class ParameterSeam : public ::testing::Test {
 protected:
  // The weights after five steps.
  std::vector<float> train(const TrainingCase& c, const MakeStrategy& make_strategy) {
    TrainingStep step(*shared.device, c, 1, {}, make_strategy);
    step.load(random_batch({.rows = c.batch_size, .context = c.context, .vocab = c.vocab}, 1));
    step.reset();
    for (int k = 0; k < 5; ++k) step.launch();
    shared.device->synchronize();
    return floats_of(step.model().store().parameters());
  }
  std::vector<float> train_replicated(const TrainingCase& c) {
    return train(
        c, [](ParameterStore& store, Ops&) { return std::make_unique<ParallelStrategy>(store); });
  }
  std::vector<float> train_in_slots(const TrainingCase& c, std::optional<Use> forgotten = {}) {
    return train(c, [&](ParameterStore& store, Ops& ops) {
      return std::make_unique<TwoSlots>(store, ops, *copies, forgotten, fetched_ahead);
    });
  }

  std::unique_ptr<World> alone = shared.world->split(shared.world->rank(), 0);
  std::unique_ptr<Communicator> copies = shared.make_communicator(*alone);
  int fetched_ahead = 0;
};

TEST_F(ParameterSeam, parameters_that_come_and_go_train_as_resident_ones) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const int recompute : {0, 1, 2}) {
      SCOPED_TRACE(std::string(precision) + ", recompute " + std::to_string(recompute));
      const TrainingCase c = small(precision, recompute);
      const std::vector<float> resident = train_replicated(c);
      EXPECT_TRUE(std::isfinite(resident.front()));
      fetched_ahead = 0;
      EXPECT_EQ(train_in_slots(c), resident);
      EXPECT_GT(fetched_ahead, 4 * 2 * 3 * 6);  // four steps, forward and backward of the blocks
    }
  }
}

TEST_F(ParameterSeam, the_first_steps_order_is_the_schedule_of_the_next_ones) {
  class Counted final : public ParallelStrategy {
   public:
    Counted(ParameterStore& store, std::vector<Use>& uses) : ParallelStrategy(store), uses_(uses) {}
    [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override {
      uses_.emplace_back(id, pass);
      return ParallelStrategy::acquire(id, pass);
    }

   private:
    std::vector<Use>& uses_;
  };
  std::vector<Use> uses;
  (void)train(small("fp32", 2),
              [&](ParameterStore& store, Ops&) { return std::make_unique<Counted>(store, uses); });
  ASSERT_EQ(uses.size() % 5, 0U);
  const auto steps = static_cast<std::ptrdiff_t>(uses.size() / 5);
  for (std::ptrdiff_t k = 1; k < 5; ++k) {
    EXPECT_TRUE(std::equal(uses.begin(), uses.begin() + steps, uses.begin() + k * steps));
  }
}

// For a weight and a norm, in each pass.
TEST_F(ParameterSeam, a_use_that_is_not_acquired_is_caught) {
  const TrainingCase c = small("fp32", 2);
  for (const Pass pass : {Pass::forward, Pass::recompute, Pass::backward}) {
    const ParameterId norm = 1 + 4 * 3 + 1;  // head, the blocks' weights, the last norm
    for (const ParameterId id : {ParameterId{2}, norm}) {
      const std::vector<float> weights = train_in_slots(c, Use{id, pass});
      EXPECT_TRUE(
          std::any_of(weights.begin(), weights.end(), [](float w) { return std::isnan(w); }))
          << id << ", pass " << static_cast<int>(pass);
    }
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run_rank_tests(argc, argv); }
