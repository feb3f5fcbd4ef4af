// Data parallelism under mpirun, as the course tests it: ranks start from different seeds, receive
// rank 0's parameters, and train five steps of SGD on their rows of a batch. After each step the
// parameters equal those of a single process that trained on the whole batch. Every strategy,
// bucket size and toy model.
//   gradient_sync_test mpi|nccl [GoogleTest's options]

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/precision.h"
#include "parallel/gradient_exchange.h"
#include "tests/ranks/rank_test.h"
#include "tests/ranks/toy_models.h"

namespace paceline {
namespace {

constexpr std::int64_t in = 10;
constexpr std::int64_t out = 5;
constexpr int steps = 5;
constexpr double learning_rate = 0.1;

std::vector<float> parameters_of(const ParameterStore& store) {
  return floats_of(store.parameters());
}

// Infinite if a value is NaN.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double apart = std::abs(static_cast<double>(a[i]) - b[i]);
    largest = std::max(largest, std::isnan(apart) ? HUGE_VAL : apart);
  }
  return largest;
}

bool same_on_all_ranks(const std::vector<float>& values) {
  World& world = *shared.world;
  const std::string bytes(reinterpret_cast<const char*>(values.data()),
                          values.size() * sizeof(float));
  const bool differs = world.broadcast(bytes, 0) != bytes;
  return world.max(differs ? 1 : 0) == 0;
}

struct Rows {
  Array x;  // [R, 10]
  Array y;  // [R, 5]
};

// Rows order[first] to order[first + count - 1] of the batch.
Rows rows_of(const std::vector<int>& order, std::int64_t first, std::int64_t count) {
  Device& device = *shared.device;
  const auto gather = [&](std::int64_t width, std::uint64_t stream) {
    std::vector<float> all(order.size() * static_cast<std::size_t>(width));
    Random(7, stream).fill_normal(all);
    std::vector<float> mine;
    for (std::int64_t r = first; r < first + count; ++r) {
      const auto row = all.begin() + order[static_cast<std::size_t>(r)] * width;
      mine.insert(mine.end(), row, row + width);
    }
    Array x = device.allocate({count, width}, Dtype::f32, MemoryKind::activation);
    device.to_device(x, mine.data());
    return x;
  };
  return {gather(in, 0), gather(out, 1)};
}

class DataParallel : public ::testing::Test {
 protected:
  Device& device = *shared.device;
  World& world = *shared.world;
  const int n = world.size();
  const std::unique_ptr<Ops> ops = make_ops("fp32", Dtype::f32);

  // The dtype in which gradients are exchanged.
  static std::unique_ptr<Ops> make_ops(const char* name, Dtype exchanged) {
    Precision precision = precision_named(name);
    precision.communication = exchanged;
    return shared.device->make_ops({.precision = precision, .deterministic = true});
  }
  void train(const ToyDesign& design, const StrategyConfig& config) const;
};

void DataParallel::train(const ToyDesign& design, const StrategyConfig& config) const {
  ToyModel model(device, *ops, design);
  model.draw(static_cast<std::uint64_t>(world.rank()));
  const std::vector<float> own = parameters_of(model.trainable());
  const std::vector<float> own_frozen = parameters_of(model.frozen());
  for (ParameterStore* store : {&model.trainable(), &model.frozen()}) {
    if (!store->entries().empty()) GradientExchange(*store, *ops, *shared.all, {}).start();
  }
  const std::vector<float> start = parameters_of(model.trainable());
  const std::vector<float> frozen = parameters_of(model.frozen());
  EXPECT_EQ(start == own, world.rank() == 0);
  EXPECT_EQ(frozen == own_frozen, world.rank() == 0 || frozen.empty());
  EXPECT_TRUE(same_on_all_ranks(start));
  EXPECT_TRUE(same_on_all_ranks(frozen));

  // A product's order of summation depends on the BLAS and on its shape, and training amplifies
  // roundings. How far they move the parameters is seen from the same rows in the reverse order.
  ToyModel single(device, *ops, design);
  ToyModel reversed(device, *ops, design);
  for (ToyModel* one : {&single, &reversed}) one->draw(0);
  ASSERT_EQ(parameters_of(single.trainable()), start);
  double allowed = 0x1p-22;  // a few roundings of weights around 1

  GradientExchange sync(model.trainable(), *ops, *shared.all, config);
  ParallelStrategy alone(single.trainable());
  ParallelStrategy alone_reversed(reversed.trainable());
  const std::int64_t share = 20 / n;  // of the course's 20 rows, per rank
  std::vector<int> order(20);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 shuffler(42);
  for (int step = 0; step < steps; ++step) {
    std::shuffle(order.begin(), order.end(), shuffler);
    const Rows all = rows_of(order, 0, share * n);
    single.forward_backward(all.x, all.y, alone);
    single.sgd(learning_rate);
    const std::vector<float> want = parameters_of(single.trainable());
    const std::vector<int> from_last(order.rbegin(), order.rend());
    const Rows turned = rows_of(from_last, 20 - share * n, share * n);
    reversed.forward_backward(turned.x, turned.y, alone_reversed);
    reversed.sgd(learning_rate);
    allowed = std::max(allowed, 8 * largest_difference(parameters_of(reversed.trainable()), want));
    ASSERT_GT(largest_difference(parameters_of(model.trainable()), want), 1000 * allowed);

    const Rows mine = rows_of(order, world.rank() * share, share);
    model.forward_backward(mine.x, mine.y, sync, n);
    device.synchronize();
    model.sgd(learning_rate);
    const std::vector<float> now = parameters_of(model.trainable());
    ASSERT_LE(largest_difference(now, want), allowed) << "step " << step;
    ASSERT_TRUE(same_on_all_ranks(now));
    ASSERT_EQ(parameters_of(model.frozen()), frozen);
    ASSERT_EQ(sync.exchanges().size(), sync.ranges().size());
  }
}

TEST_F(DataParallel, equals_a_single_process_on_the_whole_batch) {
  for (const ToyDesign& design : {toy_model(), toy_model_with_tied_weights()}) {
    for (const auto strategy : {Strategy::naive, Strategy::flat, Strategy::overlap}) {
      SCOPED_TRACE(std::string(design.name) + ", " + std::string(name_of(strategy)));
      train(design, {.strategy = strategy});
    }
    for (const double megabytes : {0.0001, 0.0016, 0.01, 1.0, 10.0, 100.0, 1000.0}) {
      SCOPED_TRACE(std::string(design.name) + ", buckets of " + std::to_string(megabytes));
      train(design, {.strategy = Strategy::bucketed, .bucket_bytes = 1e6 * megabytes});
    }
  }
}

// Gradients as a step writes them: sums of 64 products of small integers, which float32 represents
// exactly and bfloat16 rounds. A one-dimensional weight is a bias.
void write_gradients(Ops& ops, ParameterStore& store, ParallelStrategy& sync) {
  Device& device = *shared.device;
  std::uint64_t stream = 0;
  const auto numbers = [&](std::int64_t width) {
    std::vector<std::int32_t> drawn(static_cast<std::size_t>(64 * width));
    Random(static_cast<std::uint64_t>(shared.world->rank()), stream++).fill_integers(drawn, 17);
    const std::vector<float> values(drawn.begin(), drawn.end());
    const Array wide = device.allocate({64, width}, Dtype::f32, MemoryKind::activation);
    device.to_device(wide, values.data());
    Array x = device.allocate({64, width}, Dtype::bf16, MemoryKind::activation);
    ops.cast(x, wide);
    return x;
  };
  sync.begin_step();
  store.begin_backward();
  for (ParameterId id = 0; id < store.entries().size(); ++id) {
    for (bool last = false; !last;) {
      const Parameter p = store.parameter(id);
      const std::int64_t rows = p.gradient.shape[0];
      const std::int64_t columns = p.gradient.numel() / rows;
      const Array dy = numbers(rows);
      const Array x = numbers(columns);
      ops.matmul(Matrix(p.gradient.reshape({rows, columns})), Matrix(dy).transpose(), Matrix(x), 1,
                 p.accumulate ? 1 : 0);
      last = store.gradient_written(id);
    }
    sync.gradient_ready(id);
  }
  sync.finish_backward();
  device.synchronize();
}

// Products that write bfloat16 give the same bits as float32 gradients that are cast and then
// summed.
TEST_F(DataParallel, sends_half_types_that_products_write) {
  for (const bool tied : {false, true}) {
    std::vector<ParameterEntry> entries = {toy_entry("head", {33, 7}),
                                           toy_entry("w", {5, 129}, tied ? 2 : 1),
                                           toy_entry("w2", {20, 20}), toy_entry("norm", {33})};
    entries.back().full_precision = true;
    const std::unique_ptr<Ops> fine = make_ops("bf16", Dtype::f32);
    ParameterStore written(device, fine->precision(), entries);
    written.allocate_gradients();
    ParallelStrategy alone(written);
    write_gradients(*fine, written, alone);
    for (const auto strategy :
         {Strategy::naive, Strategy::flat, Strategy::overlap, Strategy::bucketed}) {
      SCOPED_TRACE(std::string(name_of(strategy)) + (tied ? ", tied" : ""));
      const std::unique_ptr<Ops> half = make_ops("bf16", Dtype::bf16);
      ParameterStore store(device, half->precision(), entries);
      store.allocate_gradients();
      EXPECT_EQ(store.parameter(0).gradient.dtype, Dtype::bf16);
      GradientExchange sync(store, *half, *shared.all,
                            {.strategy = strategy, .bucket_bytes = 1500});
      write_gradients(*half, store, sync);

      const Array cast = device.allocate({store.size()}, Dtype::bf16, MemoryKind::gradient);
      fine->cast(cast, written.gradients());
      device.synchronize();
      const std::vector<float> own = floats_of(cast);
      EXPECT_NE(own, floats_of(written.gradients()));
      for (const GradientRange& range : sync.ranges()) {
        const Tensor part = range.of(cast);
        shared.all->all_reduce(part, part, ReduceOp::sum);
      }
      shared.all->stream().synchronize();
      EXPECT_EQ(floats_of(store.gradients()), floats_of(cast));
    }
  }
}

TEST_F(DataParallel, sends_what_is_ready_or_all_at_the_end) {
  for (const auto strategy : {Strategy::naive, Strategy::flat, Strategy::overlap}) {
    ToyModel model(device, *ops, toy_model());
    model.trainable().allocate_gradients();
    GradientExchange sync(model.trainable(), *ops, *shared.all, {.strategy = strategy});
    sync.begin_step();
    for (ParameterId id = 0; id < 3; ++id) {
      EXPECT_EQ(sync.exchanges().size(), strategy == Strategy::overlap ? id : 0);
      sync.gradient_ready(id);
    }
    sync.finish_backward();
    EXPECT_EQ(sync.exchanges().size(), sync.ranges().size());
    device.synchronize();
  }
}

// Backward does not report every gradient as ready.
TEST_F(DataParallel, a_gradient_that_never_comes_is_an_error) {
  ToyModel model(device, *ops, toy_model());
  model.trainable().allocate_gradients();
  GradientExchange sync(model.trainable(), *ops, *shared.all, {.strategy = Strategy::overlap});
  sync.begin_step();
  sync.gradient_ready(0);
  EXPECT_THROW(sync.finish_backward(), InternalError);
  device.synchronize();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run_rank_tests(argc, argv); }
