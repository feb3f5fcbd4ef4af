// Sharded optimizers under mpirun: the parameters that a rank updates and receives equal those that
// it would have computed alone, bit for bit where sums are exact.
//   optimizer_sharding_test mpi|nccl [GoogleTest's options]

#include "parallel/optimizer_sharding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/precision.h"
#include "tests/ranks/rank_test.h"
#include "tests/ranks/replica.h"
#include "tests/ranks/toy_models.h"

namespace paceline {
namespace {

constexpr int steps = 10;
constexpr std::array sharded_strategies = {Strategy::owner_broadcast, Strategy::zero1,
                                           Strategy::zero2, Strategy::fsdp};

// Not finite on rank 0 alone.
float overflow(int rank, int /*step*/, std::int64_t i) {
  return rank == 0 && i == 0 ? std::numeric_limits<float>::infinity() : 1.0F;
}

// |a - b| / |b|; 0 where they are bitwise equal except for the sign of 0.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

class Sharding : public ::testing::Test {
 protected:
  World& world = *shared.world;
  const int n = world.size();

  static std::unique_ptr<Ops> make_ops(const char* name, Dtype exchanged = Dtype::f32) {
    Precision precision = precision_named(name);
    precision.communication = exchanged;
    return shared.device->make_ops({.precision = precision, .deterministic = true});
  }
  static std::vector<ParameterId> ids_of(const std::vector<ParameterEntry>& entries) {
    std::vector<ParameterId> ids(entries.size());
    std::iota(ids.begin(), ids.end(), ParameterId{0});
    return ids;
  }

  void expect_unsharded(const char* precision, const Gradients& gradients, double max_distance,
                        Dtype exchanged = Dtype::f32) const {
    const auto ops = make_ops(precision, exchanged);
    for (const double bucket_bytes : {1.0, 600.0, 1e9}) {
      const StrategyConfig config{.bucket_bytes = bucket_bytes};
      for (const auto strategy : sharded_strategies) {
        SCOPED_TRACE(std::string(name_of(strategy)) + ", " + precision + ", buckets of " +
                     std::to_string(bucket_bytes));
        Replica plain(*ops, uneven_entries(), Strategy::bucketed, config, strategy);
        Replica sharded(*ops, uneven_entries(), strategy, config);
        plain.train(steps, gradients);
        sharded.train(steps, gradients);
        EXPECT_LE(distance(sharded.begin(), plain.begin()), max_distance);
        const auto masters = parameters_of(sharded.sync());
        EXPECT_LE(distance(masters, floats_of(plain.store().parameters())), max_distance);
      }
    }
  }
};

class StreamOrder : public Sharding {
 protected:
  const std::unique_ptr<Ops> ops = make_ops("fp32");

  // The streams that can be delayed: the CPU's compute stream is the calling thread.
  static std::vector<Stream*> streams() {
    std::vector<Stream*> streams = {&shared.all->stream(), &shared.gathers->stream()};
    if (shared.all->backend() == BackendKind::nccl)
      streams.push_back(&shared.device->compute_stream());
    return streams;
  }
  // All 0.
  static Array like(const ParameterStore& store) {
    Array x = shared.device->allocate({store.size()}, Dtype::f32, MemoryKind::workspace);
    shared.device->zero(x);
    shared.device->synchronize();
    return x;
  }
  // The ranks, counted from 1, have written their own slices of each range.
  void expect_every_slice_is_its_rank_s(Replica& r, const Array& seen) const {
    const auto values = floats_of(seen);
    for (const GradientRange& range : r.sync().ranges()) {
      for (std::int64_t i = 0; i < range.length; ++i) {
        const std::int64_t at = range.offset + i;
        if (is_padding(r.store(), at)) continue;
        ASSERT_EQ(values[static_cast<std::size_t>(at)], 1 + i * n / range.length) << at;
      }
    }
  }
  // Until the end of the update, or later.
  static void expect_waited_for(const Wait& wait, const Exchange& e) {
    constexpr double resolution = 1e-5;
    EXPECT_GE(wait.until->seconds_since(*wait.from), -resolution);
    EXPECT_GE(wait.until->seconds_since(*e.end), -resolution);
  }
};

TEST_F(Sharding, changes_no_bit_where_sums_are_exact_or_of_two_ranks) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    expect_unsharded(precision, exact, 0);
  }
  for (const char* precision : {"fp32", "bf16"}) {
    expect_unsharded(precision, exact, 0, Dtype::bf16);
  }
  expect_unsharded("fp32", normal, n <= 2 ? 0 : 1e-5);
}

TEST_F(Sharding, owners_are_chosen_largest_first) {
  EXPECT_EQ(owners_of(uneven_entries(), 1), (std::vector<int>{0, 0, 0, 0, 0}));
  EXPECT_EQ(owners_of(uneven_entries(), 2), (std::vector<int>{1, 1, 1, 1, 0}));
  EXPECT_EQ(owners_of(uneven_entries(), 3), (std::vector<int>{1, 2, 2, 2, 0}));
}

// A value that is not finite on one rank makes all ranks skip the step.
TEST_F(Sharding, skips_a_step_together) {
  const auto ops = make_ops("fp16");
  for (const auto strategy : sharded_strategies) {
    Replica r(*ops, uneven_entries(), strategy, {});
    const auto before = parameters_of(r.sync());
    r.step(0, overflow);
    EXPECT_EQ(parameters_of(r.sync()), before);
    EXPECT_EQ(r.state().get(*shared.device, StepScalar::step), 0);
    EXPECT_EQ(r.state().get(*shared.device, StepScalar::loss_scale), 32768);
  }
}

// In each slice of each range, that is in every rank's first range and in later ones.
TEST_F(Sharding, skips_a_step_for_what_is_not_finite_in_any_slice) {
  const auto ops = make_ops("fp16");
  for (const auto strategy : {Strategy::zero1, Strategy::zero2, Strategy::fsdp}) {
    Replica r(*ops, {toy_entry("head", {1600}), toy_entry("w", {2300})}, strategy,
              {.bucket_bytes = 600});
    const auto before = parameters_of(r.sync());
    double scale = r.state().get(*shared.device, StepScalar::loss_scale);
    std::vector<int> in_later_ranges(static_cast<std::size_t>(n), 0);
    for (const GradientRange& range : r.sync().ranges()) {
      for (int owner = 0; owner < n; ++owner) {
        const std::int64_t at = range.offset + owner * range.length / n;
        if (is_padding(r.store(), at)) continue;
        SCOPED_TRACE("element " + std::to_string(at) + ", of rank " + std::to_string(owner));
        if (range.offset > 0) ++in_later_ranges[static_cast<std::size_t>(owner)];
        r.step(0, [&](int rank, int, std::int64_t i) {
          return rank == (owner + 1) % n && i == at ? std::numeric_limits<float>::infinity() : 1.0F;
        });
        scale /= 2;
        ASSERT_EQ(r.state().get(*shared.device, StepScalar::step), 0);
        ASSERT_EQ(r.state().get(*shared.device, StepScalar::loss_scale), scale);
      }
    }
    for (const int count : in_later_ranges) EXPECT_GT(count, 0);
    EXPECT_EQ(parameters_of(r.sync()), before);
  }
}

TEST_F(Sharding, needs_a_store_laid_out_for_its_ranks) {
  if (n == 1) GTEST_SKIP() << "every layout fits one rank";
  const auto ops = make_ops("fp32");
  ParameterStore store(*shared.device, ops->precision(), {toy_entry("w", {100})});
  EXPECT_THROW(Zero1(store, *ops, *shared.all, {}), InternalError);
}

// More buckets than the window has room for, of two lengths, so that one bucket's padding
// overwrites another's gradients.
std::vector<ParameterEntry> more_than_a_window() {
  std::vector<ParameterEntry> entries;
  for (int i = 0; i < 6; ++i) {
    entries.push_back(toy_entry("w", {300}));
    entries.push_back(toy_entry("v", {140}));
  }
  return entries;
}

TEST_F(Sharding, a_unit_in_use_keeps_its_slot) {
  const auto ops = make_ops("fp32");
  for (const int prefetch : {0, 1}) {
    Replica r(*ops, uneven_entries(), Strategy::fsdp, {.prefetch = prefetch});
    r.sync().begin_step();
    const ParameterUse first(r.sync(), 0, Pass::forward);
    const auto values = floats_of(static_cast<const Parameter&>(first).value);
    if (prefetch == 0) {
      EXPECT_THROW((void)r.sync().acquire(1, Pass::forward), InternalError);
    } else {
      for (const ParameterId id : {1, 2, 1}) const ParameterUse other(r.sync(), id, Pass::forward);
    }
    shared.device->synchronize();
    EXPECT_EQ(floats_of(static_cast<const Parameter&>(first).value), values);
  }
}

// A phase that is captured separately must not gather for the next one. Backward begins with units
// that forward used early, as with recomputation.
TEST_F(Sharding, nothing_is_gathered_for_backward_before_forward_has_ended) {
  const auto ops = make_ops("fp32");
  const std::vector<ParameterId> all = ids_of(more_than_a_window());
  Replica r(*ops, more_than_a_window(), Strategy::fsdp, {.prefetch = 2});
  for (int step = 0; step < 2; ++step) {
    r.sync().begin_step();
    for (const ParameterId id : all) const ParameterUse use(r.sync(), id, Pass::forward);
    EXPECT_EQ(r.sync().exchanges().size(), all.size());
    EXPECT_EQ(r.sync().waits().size(), all.size());
    r.store().begin_backward();
    for (const ParameterId id : all) {
      const ParameterUse use(r.sync(), id, Pass::backward);
      r.sync().gradient_ready(id);
    }
    r.sync().finish_backward();
    shared.device->synchronize();
  }
}

// ---- order between streams: one of the two is delayed -----------------------------------------

TEST_F(StreamOrder, what_follows_updated_reads_what_owners_sent) {
  for (Stream* held : streams()) {
    Replica r(*ops, uneven_entries(), Strategy::owner_broadcast, {});
    const Array seen = like(r.store());
    r.sync().begin_step();
    const HeldBack hold(*held);
    ops->fill(r.store().parameters(), world.rank() + 1);
    r.sync().updated();
    ops->cast(seen, r.store().parameters());
    shared.device->synchronize();
    const std::vector<int> owners = owners_of(r.store().entries(), n);
    for (ParameterId id = 0; id < owners.size(); ++id) {
      const ParameterEntry& entry = r.store().entries()[id];
      const auto values = floats_of(entry.range().of(seen));
      EXPECT_EQ(values, std::vector<float>(values.size(), owners[id] + 1)) << "parameter " << id;
    }
    ASSERT_EQ(r.sync().waits().size(), 1U);
    expect_waited_for(r.sync().waits().front(), r.sync().exchanges().back());
    EXPECT_EQ(r.sync().waits().front().what, "the owners' parameters");
  }
}

TEST_F(StreamOrder, forward_reads_what_was_gathered) {
  for (Stream* held : streams()) {
    Replica r(*ops, uneven_entries(), Strategy::zero1, {.bucket_bytes = 600});
    const Array seen = like(r.store());
    const HeldBack hold(*held);
    ops->fill(r.store().parameters(), world.rank() + 1);
    r.sync().begin_step();
    for (ParameterId id = r.store().entries().size(); id-- > 0;) {
      (void)r.sync().acquire(id, Pass::forward);
      const ParameterEntry& entry = r.store().entries()[id];
      const StoreRange range = entry.range();
      ops->cast(range.of(seen), range.of(r.store().parameters()));
    }
    shared.device->synchronize();
    expect_every_slice_is_its_rank_s(r, seen);
    const auto& ranges = r.sync().ranges();
    ASSERT_EQ(r.sync().waits().size(), ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      expect_waited_for(r.sync().waits()[i], r.sync().exchanges()[i]);
      EXPECT_EQ(r.sync().waits()[i].what, r.sync().exchanges()[i].what);
      EXPECT_FALSE(r.sync().waits()[i].what.empty());
    }
  }
}

// Two slots, each of which holds one unit after the other.
TEST_F(StreamOrder, a_unit_is_read_where_and_when_it_was_gathered) {
  for (Stream* held : streams()) {
    Replica r(*ops, uneven_entries(), Strategy::fsdp, {.prefetch = 1});
    r.begin();  // the order of uses
    const Array seen = like(r.store());
    const HeldBack hold(*held);
    ops->fill(r.store().parameters(), world.rank() + 1);
    r.sync().begin_step();
    for (ParameterId id = r.store().entries().size(); id-- > 0;) {
      const ParameterUse use(r.sync(), id, Pass::forward);
      const Tensor x = static_cast<const Parameter&>(use).value;
      ops->cast(r.store().entries()[id].range().of(seen), x.reshape({x.numel()}));
    }
    shared.device->synchronize();
    expect_every_slice_is_its_rank_s(r, seen);
    ASSERT_EQ(r.sync().waits().size(), r.sync().ranges().size());
  }
}

TEST_F(StreamOrder, gradients_are_written_over_others_once_those_are_scattered) {
  const auto entries = more_than_a_window();
  const std::vector<ParameterId> all = ids_of(entries);
  for (Stream* held : streams()) {
    for (const auto strategy : {Strategy::zero2, Strategy::fsdp}) {
      Replica r(*ops, entries, strategy, {.bucket_bytes = 1});
      r.begin();
      const HeldBack hold(*held);
      for (const ParameterId id : all) {
        const ParameterUse use(r.sync(), id, Pass::backward);
        const Parameter& p = use;
        ops->fill(p.gradient, static_cast<double>((world.rank() + 1) * (id + 1)));
        r.sync().gradient_ready(id);
      }
      r.sync().finish_backward();
      shared.device->synchronize();
      const std::vector<float> sums = gradients_of(r.sync());
      for (const ParameterId id : all) {
        const StoreRange range = r.store().entries()[id].range();
        for (std::int64_t i = range.offset; i < range.end(); ++i) {
          ASSERT_EQ(sums[static_cast<std::size_t>(i)],
                    static_cast<float>(id + 1) * static_cast<float>(n * (n + 1)) / 2.0F)
              << i;
        }
      }
    }
  }
}

class SentAs : public Sharding, public ::testing::WithParamInterface<Dtype> {};

TEST_P(SentAs, a_window_of_gradients_leaves_padding_at_zero) {
  const auto exact_ops = make_ops("fp32", GetParam());
  const auto entries = more_than_a_window();
  std::vector<std::vector<float>> weights;
  for (const auto strategy : {Strategy::zero1, Strategy::zero2, Strategy::fsdp}) {
    Replica r(*exact_ops, entries, strategy, {.bucket_bytes = 1});
    r.train(3, exact);
    weights.push_back(parameters_of(r.sync()));
    for (std::size_t i = 0; i < weights.back().size(); ++i) {
      if (is_padding(r.store(), static_cast<std::int64_t>(i))) {
        ASSERT_EQ(weights.back()[i], 0) << i;
      }
    }
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(weights[0], weights[2]);
}

INSTANTIATE_TEST_SUITE_P(, SentAs, ::testing::Values(Dtype::f32, Dtype::bf16));

TEST_F(StreamOrder, what_follows_finish_reads_sums) {
  for (Stream* held : streams()) {
    for (const auto strategy :
         {Strategy::bucketed, Strategy::zero1, Strategy::zero2, Strategy::fsdp}) {
      Replica r(*ops, uneven_entries(), strategy, {.bucket_bytes = 600});
      const Array seen = like(r.store());
      r.begin();
      const HeldBack hold(*held);
      for (ParameterId id = 0; id < r.store().entries().size(); ++id) {
        const ParameterUse use(r.sync(), id, Pass::backward);
        ops->fill(static_cast<const Parameter&>(use).gradient, world.rank() + 1);
        r.sync().gradient_ready(id);
      }
      r.sync().finish_backward();
      for (const StoreRange& range : r.sync().shard().ranges) {
        ops->cast(range.of(seen), r.store().gradients(range));
      }
      shared.device->synchronize();
      const auto values = floats_of(seen);
      for (const StoreRange& range : r.sync().shard().ranges) {
        for (std::int64_t i = range.offset; i < range.offset + range.length; ++i) {
          if (is_padding(r.store(), i)) continue;
          ASSERT_EQ(values[static_cast<std::size_t>(i)], n * (n + 1) / 2.0F) << i;
        }
      }
    }
  }
}

TEST_F(StreamOrder, a_step_is_skipped_once_all_ranks_have_said) {
  const auto half = make_ops("fp16");
  for (Stream* held : streams()) {
    Replica r(*half, uneven_entries(), Strategy::zero1, {});
    r.exchange(0, overflow);
    const HeldBack hold(*held);
    r.update();
    EXPECT_EQ(r.state().get(*shared.device, StepScalar::step), 0);
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run_rank_tests(argc, argv); }
