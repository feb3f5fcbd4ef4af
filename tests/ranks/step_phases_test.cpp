// A training step as a list of phases: with every strategy, phases can be captured separately and
// as a whole, and no step after the rehearsal allocates new memory.
//   step_phases_test mpi|nccl [GoogleTest's options]

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "experiments/training/training_run.h"
#include "harness/case_run.h"
#include "tests/ranks/rank_test.h"
#include "tests/ranks/replica.h"
#include "tests/unit/tiny_training.h"

namespace paceline {
namespace {

constexpr std::array strategies = {Strategy::none,    Strategy::naive,    Strategy::flat,
                                   Strategy::overlap, Strategy::bucketed, Strategy::owner_broadcast,
                                   Strategy::zero1,   Strategy::zero2,    Strategy::fsdp};

// On more than two ranks only the first: more ranks change which rank owns a parameter, and not the
// arithmetic.
std::vector<const char*> precisions(std::initializer_list<const char*> all) {
  return shared.world->size() > 2 ? std::vector{*all.begin()} : std::vector(all);
}

TrainingCase tiny(const char* precision, Strategy strategy) {
  TrainingCase c = tiny_training(precision);
  c.strategy = strategy;
  c.bucket_mb = 0.01;
  c.deterministic = true;
  c.device = shared.device->info().kind;
  c.ranks = shared.world->size();
  c.registration = WindowRegistration::none;
  return c;
}

// A step with all memory allocated, on the launch's communicator.
struct Trainer {
  explicit Trainer(const TrainingCase& c)
      : step(*shared.device, c, c.exchanges() ? shared.world->size() : 1,
             store_layout(c, shared.all), [&c](ParameterStore& store, Ops& ops) {
               return make_strategy(c.strategy_config(), store, ops, shared.all, shared.gathers);
             }) {
    if (c.recycles_gradients()) step.recycle_gradients();
    step.load(c.rows(shared.world->rank() * c.batch_size, c.batch_size));
    step.reset();
    step.strategy().prepare_visits();
    step.launch();
    warm_up_allocator(*shared.device, "a step", [this] { step.launch(); });
    reset();
    shared.device->freeze();
  }
  ~Trainer() { shared.device->trim(); }  // unfreezes
  void reset() {
    step.reset();
    step.strategy().start();
  }
  // After three steps.
  std::vector<float> weights(const std::function<void()>& launch) {
    reset();
    for (int k = 0; k < 3; ++k) launch();
    shared.device->synchronize();
    return parameters_of(step.strategy());
  }

  TrainingStep step;
};

class StepPhases : public ::testing::Test {
 protected:
  void TearDown() override { device.trim(); }

  Device& device = *shared.device;
  World& world = *shared.world;
};

std::vector<std::vector<StepPhase>> captured_together(const TrainingStep& step) {
  std::vector<std::vector<StepPhase>> groups;
  for (const StepPhase& phase : step.phases()) {
    if (phase.joins) {
      groups.back().push_back(phase);
    } else {
      groups.push_back({phase});
    }
  }
  return groups;
}

TEST_F(StepPhases, captured_whole_or_one_by_one_they_are_the_eager_step) {
  struct Kind {
    const char* precision;
    int recomputed;  // blocks; of these cases the updates are in backward
  };
  // The last two on two ranks alone, as in precisions().
  const std::array<Kind, 4> kinds = {{{"bf16", 0}, {"bf16", 2}, {"fp32", 2}, {"fp16", 0}}};
  for (const Kind& kind : std::span(kinds).first(world.size() > 2 ? 2 : kinds.size())) {
    for (const Strategy strategy : strategies) {
      SCOPED_TRACE(fmt::format("{} {} {}", kind.precision, name_of(strategy), kind.recomputed));
      TrainingCase c = tiny(kind.precision, strategy);
      c.recompute = {.blocks = kind.recomputed};
      if (kind.recomputed > 0) c.optimizer = OptimizerOrder::in_backward;
      Trainer t(c);
      const std::vector<float> eager = t.weights([&] { t.step.launch(); });
      std::vector<std::unique_ptr<Graph>> graphs;
      for (const auto& group : captured_together(t.step)) {
        graphs.push_back(device.capture(device.compute_stream(), [group] {
          for (const StepPhase& phase : group) phase.launch();
        }));
      }
      const auto replay = [&] {
        for (const auto& graph : graphs) graph->launch();
      };
      EXPECT_EQ(t.weights(replay), eager);
      const std::unique_ptr<Graph> whole =
          device.capture(device.compute_stream(), [&] { t.step.launch(); });
      EXPECT_EQ(t.weights([&] { whole->launch(); }), eager);
    }
  }
}

TEST_F(StepPhases, updates_in_backward_are_bitwise_the_serial_optimizers) {
  for (const char* precision : precisions({"bf16", "fp32"})) {
    for (const Strategy strategy : strategies) {
      SCOPED_TRACE(std::string(precision) + " " + std::string(name_of(strategy)));
      std::vector<std::vector<float>> weights;
      for (const OptimizerOrder order : {OptimizerOrder::serial, OptimizerOrder::in_backward}) {
        TrainingCase c = tiny(precision, strategy);
        c.optimizer = order;
        Trainer t(c);
        weights.push_back(t.weights([&] { t.step.launch(); }));
        EXPECT_EQ(t.step.updates().empty(), order == OptimizerOrder::serial);
      }
      EXPECT_EQ(weights[0], weights[1]);
    }
  }
}

// More blocks than the memory for shards holds: with a slow optimizer a reduce_scatter must wait.
TEST_F(StepPhases, a_shard_is_scattered_over_another_once_that_is_updated) {
  for (const Strategy strategy : {Strategy::zero2, Strategy::fsdp}) {
    SCOPED_TRACE(name_of(strategy));
    TrainingCase c = tiny("fp32", strategy);
    c.layers = 8;
    c.bucket_mb = 0;
    std::vector<float> want;
    {
      Trainer serial(c);
      want = serial.weights([&] { serial.step.launch(); });
    }
    c.optimizer = OptimizerOrder::in_backward;
    Trainer t(c);
    const ParameterStore& store = t.step.model().store();
    const auto overwrites = [&](const StoreRange& g) {
      return store.shard_overwritten_by(g).has_value();
    };
    ASSERT_GT(std::count_if(store.groups().begin(), store.groups().end(), overwrites), 4);
    const auto slow = [&] {
      const HeldBack hold(device.optimizer_stream());
      t.step.launch();
    };
    EXPECT_EQ(t.weights(slow), want);
  }
}

// The same cases in the same order on every rank.
class RandomCases {
 public:
  explicit RandomCases(unsigned seed) : engine_(seed) {}

  TrainingCase next() {
    TrainingCase c = tiny(among({"fp32", "bf16", "fp16"}), among(strategies));
    c.heads = number(1, 3);
    c.d_model = c.heads * 2 * number(1, 12);
    c.d_ff = number(1, 90);
    c.layers = number(1, 4);
    c.vocab = number(2, 300);
    c.context = number(1, 40);
    c.batch_size = number(1, 3);
    c.recompute = {.blocks = static_cast<int>(number(0, 3))};
    c.recompute.swiglu = c.recompute.blocks == 0 && number(0, 1) == 0;
    c.bucket_mb = among({0.0, 0.001, 0.01, 25.0});
    c.prefetch = static_cast<int>(number(0, 3));
    c.reshard = among({Reshard::no, Reshard::yes});
    c.comm_dtype = c.precision.loss_scaling ? GradientDtype::fp32
                                            : among({GradientDtype::fp32, GradientDtype::bf16});
    c.mode = c.strategy == Strategy::none
                 ? among({Mode::inference, Mode::forward, Mode::train_step})
                 : Mode::train_step;
    // A GPU has flash kernels for some head dimensions only.
    const bool flash = c.device == DeviceKind::cpu;
    c.attention = among({AttentionKind::naive, AttentionKind::fused,
                         flash ? AttentionKind::flash : AttentionKind::naive});
    if (!c.precision.loss_scaling && c.mode == Mode::train_step) {
      c.optimizer = among({OptimizerOrder::serial, OptimizerOrder::in_backward});
    }
    if (c.device == DeviceKind::cuda) {
      c.execution = among({Execution::eager, Execution::compiled});
      c.deterministic = number(0, 1) == 0;
    }
    c.memory_timeline = number(0, 3) == 0;
    c.timing = among({Timing::phases, Timing::step});
    c.warmup = 1;
    c.steps = 3;
    return c;
  }

 private:
  std::int64_t number(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(engine_() % static_cast<unsigned>(most - least + 1));
  }
  template <class T, std::size_t n>
  T among(const std::array<T, n>& values) {
    return values.at(engine_() % n);
  }
  template <class T>
  T among(std::initializer_list<T> values) {
    return values.begin()[engine_() % values.size()];
  }

  std::mt19937 engine_;
};

// The allocator is frozen after the rehearsal: a step that allocates new memory throws.
TEST_F(StepPhases, no_step_allocates_what_the_rehearsal_did_not) {
  RandomCases cases(static_cast<unsigned>(world.size()));
  Progress silent;
  for (int i = 0; i < 25; ++i) {
    const TrainingCase c = cases.next();
    SCOPED_TRACE(to_text(recorded(training_factors(TrainingKind::ddp), c).at("sync")) + " " +
                 std::string(c.precision.name) + ", case " + std::to_string(i));
    TrainingRun run(c, world, device, {world, shared.all, shared.gathers}, nullptr);
    const CaseRecord record = measure_case(world, device, run, c, {}, silent);
    EXPECT_TRUE(record.status == Status::ok || record.status == Status::diverged) << record.reason;
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run_rank_tests(argc, argv); }
