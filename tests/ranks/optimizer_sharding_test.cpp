// Sharded optimizers under mpirun: what a rank updates and gets from the others equals, bit for bit
// where sums are exact, what every rank would have computed alone.
//   optimizer_sharding_test mpi|nccl [GoogleTest's options]

#include "parallel/optimizer_sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/precision.h"
#include "tests/ranks/rank_test.h"
#include "tests/ranks/toy_models.h"

namespace paceline {
namespace {

constexpr double learning_rate = 0.1;
constexpr int steps = 10;
constexpr AdamWConfig course{.weight_decay = 0.1};

// |a - b| / |b|; 0 where they are equal bit for bit, but for the sign of a 0.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

// Neither the entries nor their sum are multiples of anything; two are read in full precision.
std::vector<ParameterEntry> uneven_entries() {
  std::vector<ParameterEntry> entries = {toy_entry("head", {7, 33}), toy_entry("w2", {129}),
                                         toy_entry("w1", {1}), toy_entry("norm", {33}),
                                         toy_entry("table", {5, 101})};
  entries[3].full_precision = entries[4].full_precision = true;
  return entries;
}

// By rank, step and element of the store.
using Gradients = std::function<float(int, int, std::int64_t)>;

// Up to 4 ranks add these up without rounding, in bfloat16 too.
float exact(int rank, int step, std::int64_t i) {
  return static_cast<float>((i * 37 + step * 101 + rank * 13) % 129 - 64) / 1024;
}
float normal(int rank, int step, std::int64_t i) {
  const auto stream = static_cast<std::uint64_t>(rank) * 100 + static_cast<std::uint64_t>(step + 1);
  return static_cast<float>(Random(5, stream).uniform4(static_cast<std::uint64_t>(i))[0] - 0.5);
}

// Parameters that are trained with given gradients.
class Replica {
 public:
  Replica(Ops& ops, const std::vector<ParameterEntry>& entries,
          const std::vector<ParameterGroup>& groups, ShardStrategy strategy,
          const SyncConfig& config)
      : ops_(ops),
        store_(device_, ops.precision(), entries, layout()),
        sync_(make_sync(strategy, config)),
        adamw_(store_, groups, sync_->shard()),
        state_(StepState::create(device_, 1, 1, Dtype::f32, ops.precision().loss_scaling,
                                 learning_rate)) {
    store_.allocate_gradients();
    sync_->start();
    write(&Parameter::value, [](std::int64_t i) { return normal(0, -1, i); });
    store_.refresh_copy(ops);
  }

  ParameterStore& store() { return store_; }
  GradientSync& sync() { return *sync_; }
  const AdamW& adamw() const { return adamw_; }
  const StepState& state() const { return state_; }

  void train(const Gradients& gradients) {
    for (int k = 0; k < steps; ++k) step(k, gradients);
  }

  void step(int k, const Gradients& gradients) {
    begin();
    write(&Parameter::gradient,
          [&](std::int64_t i) { return gradients(shared.world->rank(), k, i); });
    for (ParameterId id = 0; id < store_.entries().size(); ++id) sync_->ready(id);
    sync_->finish();
    adamw_.step(ops_, state_);
    sync_->updated();
    device_.synchronize();
  }

  // Up to where forward has read everything.
  void begin() {
    sync_->begin_step();
    for (ParameterId id = store_.entries().size(); id-- > 0;) sync_->before_use(id);
    device_.synchronize();
  }

  // What forward reads, entry after entry.
  std::vector<float> read() {
    std::vector<float> values;
    for (ParameterId id = 0; id < store_.entries().size(); ++id) {
      const Parameter p = store_.parameter(id);
      const auto x = floats_of(store_.entries()[id].full_precision ? p.value : p.compute);
      values.insert(values.end(), x.begin(), x.end());
    }
    return values;
  }

 private:
  // Of memory that NCCL registers.
  StoreLayout layout() const {
    StoreLayout layout{.shards = n_, .allocate = {}};
    if (shared.all->backend() == "nccl") {
      layout.allocate = [](const Shape& shape, Dtype dtype, MemoryKind kind) {
        return shared.all->allocate(shape, dtype, kind);
      };
    }
    return layout;
  }

  std::unique_ptr<GradientSync> make_sync(ShardStrategy strategy, SyncConfig config) {
    config.registered = shared.all->backend() == "nccl";
    switch (strategy) {
      case ShardStrategy::broadcast:
        return std::make_unique<OwnerBroadcast>(store_, ops_, *shared.all, config);
      case ShardStrategy::zero1: return std::make_unique<Zero1>(store_, ops_, *shared.all, config);
      case ShardStrategy::none: break;
    }
    return std::make_unique<GradientSync>(store_, ops_, *shared.all, config);
  }

  // Padding stays 0.
  void write(Tensor Parameter::*part, const std::function<float(std::int64_t)>& of_element) {
    for (ParameterId id = 0; id < store_.entries().size(); ++id) {
      const ParameterEntry& entry = store_.entries()[id];
      std::vector<float> values(static_cast<std::size_t>(entry.shape.numel()));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = of_element(entry.offset + static_cast<std::int64_t>(i));
      }
      const Array wide = device_.allocate(entry.shape, Dtype::f32, MemoryKind::workspace);
      device_.to_device(wide, values.data());
      ops_.cast(store_.parameter(id).*part, wide);
    }
  }

  Device& device_ = *shared.device;
  int n_ = shared.world->size();
  Ops& ops_;
  ParameterStore store_;
  std::unique_ptr<GradientSync> sync_;
  AdamW adamw_;
  StepState state_;
};

class Sharding : public ::testing::Test {
 protected:
  World& world = *shared.world;
  const int n = world.size();

  static std::unique_ptr<Ops> make_ops(const char* name, Dtype exchanged = Dtype::f32) {
    Precision precision = precision_named(name);
    precision.communication = exchanged;
    return shared.device->make_ops({.precision = precision, .deterministic = true});
  }
  static std::vector<ParameterGroup> one_group() { return {{course, {0, 1, 2, 3, 4}}}; }

  void expect_unsharded(const char* precision, const std::vector<ParameterGroup>& groups,
                        const Gradients& gradients, double most_distance,
                        Dtype exchanged = Dtype::f32) const {
    const auto ops = make_ops(precision, exchanged);
    for (const double bucket_bytes : {1.0, 600.0, 1e9}) {
      const SyncConfig config{.bucket_bytes = bucket_bytes};
      Replica plain(*ops, uneven_entries(), groups, ShardStrategy::none, config);
      plain.train(gradients);
      plain.begin();
      for (const auto strategy : {ShardStrategy::broadcast, ShardStrategy::zero1}) {
        SCOPED_TRACE(std::string(name_of(strategy)) + ", " + precision + ", buckets of " +
                     std::to_string(bucket_bytes));
        Replica sharded(*ops, uneven_entries(), groups, strategy, config);
        sharded.train(gradients);
        sharded.begin();
        const auto read = sharded.read();
        sharded.sync().gather();
        const auto masters = floats_of(sharded.store().parameters());
        const auto want = floats_of(plain.store().parameters());
        EXPECT_LE(distance(read, plain.read()), most_distance);
        EXPECT_LE(distance(masters, want), most_distance);
      }
    }
  }
};

TEST_F(Sharding, changes_no_bit_where_sums_are_exact) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    expect_unsharded(precision, one_group(), exact, 0);
  }
}

TEST_F(Sharding, changes_no_bit_on_two_ranks) {
  expect_unsharded("fp32", one_group(), normal, n <= 2 ? 0 : 1e-5);
}

TEST_F(Sharding, of_gradients_sent_as_bfloat16) {
  for (const char* precision : {"fp32", "bf16"}) {
    expect_unsharded(precision, one_group(), exact, 0, Dtype::bf16);
  }
}

TEST_F(Sharding, keeps_groups_of_parameters) {
  const AdamWConfig other{
      .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0, .rate_factor = 0.5};
  const std::vector<ParameterGroup> groups = {{course, {0, 2, 3}}, {other, {1, 4}}};
  expect_unsharded("fp32", groups, exact, 0);
  // A group is updated as if it were alone.
  const auto ops = make_ops("fp32");
  Replica both(*ops, uneven_entries(), groups, ShardStrategy::none, {});
  Replica alone(*ops, uneven_entries(), {{other, {0, 1, 2, 3, 4}}}, ShardStrategy::none, {});
  both.train(exact);
  alone.train(exact);
  for (const ParameterId id : {1, 4}) {
    EXPECT_EQ(floats_of(both.store().parameter(id).value),
              floats_of(alone.store().parameter(id).value));
  }
  EXPECT_NE(floats_of(both.store().parameter(0).value),
            floats_of(alone.store().parameter(0).value));
}

TEST_F(Sharding, groups_hold_every_parameter_once) {
  const auto ops = make_ops("fp32");
  ParameterStore store(*shared.device, ops->precision(), uneven_entries());
  const auto with = [&](const std::vector<ParameterGroup>& groups) {
    return AdamW(store, groups, Shard::whole(store));
  };
  EXPECT_THROW(with({{course, {0, 1, 2, 3}}}), InternalError);
  EXPECT_THROW(with({{course, {0, 1, 2, 3, 4}}, {course, {4}}}), InternalError);
}

// In fp32, of the parameters' bytes: 2 (n - 1) / n with zero1, as one all_reduce; half as much
// again with broadcast. The optimizer's state is divided by n.
TEST_F(Sharding, sends_and_keeps_what_the_formulas_say) {
  const auto ops = make_ops("fp32");
  const auto run = [&](ShardStrategy strategy) {
    Replica r(*ops, uneven_entries(), one_group(), strategy, {.bucket_bytes = 600});
    r.step(0, exact);
    double sent = 0;
    for (const Exchange& e : r.sync().exchanges()) sent += e.sent;
    const double state = static_cast<double>(r.adamw().m().numel());
    return std::pair{sent / static_cast<double>(r.store().parameters().bytes()),
                     state / static_cast<double>(r.store().size())};
  };
  const double ring = static_cast<double>(n - 1) / n;
  const auto [sent, state] = run(ShardStrategy::zero1);
  EXPECT_NEAR(sent, 2 * ring, 1e-12);
  EXPECT_NEAR(state, 1.0 / n, 1e-12);
  // Owners send no padding.
  const auto [sent_by_owners, state_of_owner] = run(ShardStrategy::broadcast);
  EXPECT_LE(sent_by_owners, 3 * ring);
  EXPECT_EQ(world.max(n == 1 || state_of_owner < 1 ? 0 : 1), 0);
}

TEST_F(Sharding, owners_are_chosen_largest_first) {
  EXPECT_EQ(owners_of(uneven_entries(), 1), (std::vector<int>{0, 0, 0, 0, 0}));
  EXPECT_EQ(owners_of(uneven_entries(), 2), (std::vector<int>{1, 1, 1, 1, 0}));
  EXPECT_EQ(owners_of(uneven_entries(), 3), (std::vector<int>{1, 2, 2, 2, 0}));
}

// What is not finite on one rank alone makes all of them skip the step.
TEST_F(Sharding, skips_a_step_together) {
  const auto ops = make_ops("fp16");
  const Gradients overflow = [](int rank, int, std::int64_t i) {
    return rank == 0 && i == 0 ? std::numeric_limits<float>::infinity() : 1.0F;
  };
  for (const auto strategy : {ShardStrategy::broadcast, ShardStrategy::zero1}) {
    Replica r(*ops, uneven_entries(), one_group(), strategy, {});
    const auto before = floats_of(r.store().parameters());
    r.step(0, overflow);
    r.sync().gather();
    EXPECT_EQ(floats_of(r.store().parameters()), before);
    EXPECT_EQ(r.state().get(*shared.device, StepScalar::step), 0);
    EXPECT_EQ(r.state().get(*shared.device, StepScalar::loss_scale), 32768);
  }
}

TEST_F(Sharding, needs_a_store_laid_out_for_its_ranks) {
  if (n == 1) GTEST_SKIP() << "every layout fits one rank";
  const auto ops = make_ops("fp32");
  ParameterStore store(*shared.device, ops->precision(), {toy_entry("w", {100})});
  EXPECT_THROW(Zero1(store, *ops, *shared.all, {}), InternalError);
}

// The course's test: ten steps on the same rows everywhere. Against torch's AdamW in float64, fed
// with the same gradients.
TEST_F(Sharding, trains_the_courses_toy_models) {
  Device& device = *shared.device;
  const auto ops = make_ops("fp32");
  for (const ToyDesign& design : {toy_model(), toy_model_with_tied_weights()}) {
    for (const auto strategy : {ShardStrategy::broadcast, ShardStrategy::zero1}) {
      SCOPED_TRACE(std::string(design.name) + ", " + std::string(name_of(strategy)));
      ToyModel model(device, *ops, design, n);
      model.draw(42);
      const auto frozen = floats_of(model.frozen().parameters());
      ParameterStore& store = model.trainable();
      std::unique_ptr<GradientSync> sync;
      if (strategy == ShardStrategy::zero1) {
        sync = std::make_unique<Zero1>(store, *ops, *shared.all, SyncConfig{});
      } else {
        sync = std::make_unique<OwnerBroadcast>(store, *ops, *shared.all, SyncConfig{});
      }
      AdamW adamw(store, course, sync->shard());
      const StepState state = StepState::create(device, 1, 1, Dtype::f32, false, learning_rate);
      const auto start = floats_of(store.parameters());
      std::vector<double> p(start.begin(), start.end());
      std::vector<double> m(p.size());
      std::vector<double> v(p.size());
      const auto rows = [&](std::int64_t width, std::uint64_t stream) {
        std::vector<float> values(static_cast<std::size_t>(32 * width));
        Random(42, stream).fill_normal(values);
        Array x = device.allocate({32, width}, Dtype::f32, MemoryKind::activation);
        device.to_device(x, values.data());
        return x;
      };
      const Array x = rows(10, 0);
      const Array y = rows(5, 1);
      for (int step = 1; step <= steps; ++step) {
        model.forward_backward(x, y, *sync, n);
        adamw.step(*ops, state);
        sync->updated();
        sync->gather();
        const auto g = floats_of(store.gradients());
        for (std::size_t i = 0; i < p.size(); ++i) {
          p[i] *= 1 - learning_rate * course.weight_decay;
          m[i] = course.beta1 * m[i] + (1 - course.beta1) * g[i];
          v[i] = course.beta2 * v[i] + (1 - course.beta2) * g[i] * g[i];
          const double denominator =
              std::sqrt(v[i]) / std::sqrt(1 - std::pow(course.beta2, step)) + course.eps;
          p[i] -= learning_rate / (1 - std::pow(course.beta1, step)) * m[i] / denominator;
        }
      }
      const auto now = floats_of(store.parameters());
      for (const ParameterEntry& entry : store.entries()) {
        const auto first = static_cast<std::ptrdiff_t>(entry.offset);
        const auto last = first + static_cast<std::ptrdiff_t>(entry.shape.numel());
        EXPECT_LT(distance({now.begin() + first, now.begin() + last},
                           {p.begin() + first, p.begin() + last}),
                  1e-6)
            << entry.views.front().name;
      }
      EXPECT_NE(now, start);
      EXPECT_EQ(floats_of(model.frozen().parameters()), frozen);
    }
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run_rank_tests(argc, argv); }
