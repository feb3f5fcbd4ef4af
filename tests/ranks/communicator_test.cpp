// A communicator under mpirun: rounding, order of work, and what it refuses. The values of every
// collective are in process_groups_test; those of every dtype, reduction and placement are checked
// by `paceline collectives`, in tests/ranks/test_collectives.py.
//   communicator_test mpi|nccl [GoogleTest's options]

#include "core/communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <limits>
#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/ranks/guarded_buffer.h"

namespace paceline {
namespace {

// Whether the event has been reached, without waiting: an event has a time only then.
bool reached(const EventPtr& event) {
  try {
    (void)event->seconds_since(*event);
    return true;
  } catch (const InternalError&) {
    return false;
  }
}

class Collectives : public ::testing::Test {
 protected:
  void SetUp() override { shared.failures = 0; }

  // Waits for all collectives so far; rethrows.
  void wait() { all.stream().synchronize(); }
  // A later collective is not mistaken for a refused or failed one.
  void expect_that_the_next_sum_is_right() {
    const Buffer x(Dtype::f32, 3);
    fill(x, [&](std::int64_t i) { return static_cast<double>(rank + i); });
    all.all_reduce(x, x, ReduceOp::sum);
    wait();
    expect("all_reduce", x, [&](std::int64_t i) { return n * (n - 1) / 2.0 + n * i; });
  }

  Communicator& all = *shared.all;
  World& world = *shared.world;
  const int n = all.size();
  const int rank = all.rank();
};

class ThroughMpi : public Collectives {
 protected:
  void SetUp() override {
    if (all.backend() != BackendKind::mpi) GTEST_SKIP() << "of mpi alone";
  }
};

// The values of two ranks, and zeros from the others: a single rounding in any order.
TEST_F(Collectives, rounds_half_types_to_nearest_even) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const double spaced_by_2 = dtype == Dtype::bf16 ? 256 : 2048;
    const double high = dtype == Dtype::bf16 ? 3e38 : 60000;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    struct Sum {
      double a, b, rounded;
    };
    const std::array<Sum, 6> sums = {{{spaced_by_2, 1.5, spaced_by_2 + 2},
                                      {spaced_by_2, 1, spaced_by_2},
                                      {spaced_by_2 + 2, 1, spaced_by_2 + 4},
                                      {-spaced_by_2, -1.5, -spaced_by_2 - 2},
                                      {high, high, std::numeric_limits<double>::infinity()},
                                      {nan, 1, nan}}};
    const auto sum = [&](std::int64_t i) { return sums.at(static_cast<std::size_t>(i) % 6); };
    const Buffer x(dtype, 1025);
    const Buffer y(dtype, 1025);
    fill(x, [&](std::int64_t i) { return rank == 0 ? sum(i).a : rank == 1 ? sum(i).b : 0; });
    if (n == 1) continue;
    all.all_reduce(y, x, ReduceOp::sum);
    wait();
    expect("all_reduce", y, [&](std::int64_t i) { return sum(i).rounded; });
  }
}

TEST_F(Collectives, divides_by_the_number_of_ranks) {
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::bf16, Dtype::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const Buffer x(dtype, 3);
    const Buffer want(dtype, 3);
    fill(x, [&](std::int64_t i) { return rank == n - 1 ? static_cast<double>(1 + i) : 0; });
    fill(want, [&](std::int64_t i) { return static_cast<double>(1 + i) / n; });
    all.all_reduce(x, x, ReduceOp::avg);
    wait();
    const std::vector<double> rounded = values_of(want);
    expect("avg", x, [&](std::int64_t i) { return rounded.at(static_cast<std::size_t>(i)); });
  }
}

TEST_F(Collectives, returns_before_the_others_come) {
  const Buffer x(Dtype::f32, 1025);
  fill(x, [&](std::int64_t) { return rank; });
  EventPtr done;
  if (rank == 0) {
    all.all_reduce(x, x, ReduceOp::sum);
    done = all.stream().record();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(n == 1 || !reached(done));
  }
  world.barrier();  // the other ranks call it only now
  if (rank != 0) {
    all.all_reduce(x, x, ReduceOp::sum);
    done = all.stream().record();
  }
  done->synchronize();
  wait();
  EXPECT_TRUE(reached(done));
  expect("all_reduce", x, [&](std::int64_t) { return n * (n - 1) / 2; });
}

TEST_F(Collectives, works_in_the_order_of_calls) {
  const Buffer x(Dtype::f64, 3);
  const Buffer y(Dtype::f64, 3);
  const Buffer wide(Dtype::f64, 3 * n);
  fill(x, [&](std::int64_t) { return rank + 1; });
  Stream& stream = all.stream();
  std::vector<EventPtr> events;
  all.broadcast(x, n - 1);  // n
  events.push_back(stream.record());
  all.all_reduce(y, x, ReduceOp::sum);  // n n
  events.push_back(stream.record());
  all.all_reduce(y, y, ReduceOp::avg);  // n n
  events.push_back(stream.record());
  all.all_reduce(x, x, ReduceOp::sum);  // n n
  events.push_back(stream.record());
  all.all_gather(wide, y);  // n n
  events.push_back(stream.record());
  wait();
  expect("all_reduce", x, [&](std::int64_t) { return n * n; });
  expect("all_gather", wide, [&](std::int64_t) { return n * n; });
  for (std::size_t i = 1; i < events.size(); ++i) {
    EXPECT_GE(events[i]->seconds_since(*events[i - 1]), 0);
  }
}

TEST_F(Collectives, refuses_what_does_not_fit) {
  const Buffer k(Dtype::f32, 4);
  const Buffer more(Dtype::f32, 4 * n + 1);
  const Buffer half(Dtype::f16, 4);
  const Tensor x = k;
  const Tensor wide = more;
  const auto sum = ReduceOp::sum;
  EXPECT_THROW(all.all_reduce(half, x, sum), InternalError);
  EXPECT_THROW(all.all_reduce(wide, x, sum), InternalError);
  EXPECT_THROW(all.reduce(wide, x, sum, 0), InternalError);
  EXPECT_THROW(all.reduce(x, x, sum, n), InternalError);
  EXPECT_THROW(all.reduce_scatter(x, wide, sum), InternalError);
  EXPECT_THROW(all.all_gather(wide, x), InternalError);
  EXPECT_THROW(all.broadcast(x, -1), InternalError);
  EXPECT_THROW(all.send_recv(wide, 0, x, 0), InternalError);
  EXPECT_THROW(all.send_recv(x, n, x, 0), InternalError);
  // Overlapping tensors that are not in place.
  const Tensor inside = wide.slice(1, {4});
  EXPECT_THROW(all.all_reduce(inside, wide.slice(0, {4}), sum), InternalError);
  EXPECT_THROW(all.all_gather(wide.slice(0, {4 * n}), wide.slice(4 * rank + 1, {4})),
               InternalError);
  EXPECT_THROW(all.all_to_all(wide, x), InternalError);
  // None of these was enqueued: it would fail, or match the other ranks' next call.
  wait();
  expect_that_the_next_sum_is_right();
}

TEST_F(ThroughMpi, refuses_more_elements_than_an_int_counts) {
  const Buffer x(Dtype::f32, 4);
  const Tensor huge{
      .data = x.part(0, 4).data, .shape = {std::int64_t{1} << 31U}, .dtype = Dtype::f32};
  EXPECT_THROW(all.send_recv(huge, 0, huge, 0), UsageError);
}

// The last rank sends more than rank 0 receives.
TEST_F(ThroughMpi, hands_on_what_mpi_reports) {
  const Buffer x(Dtype::f32, 100);
  const Buffer y(Dtype::f32, 100);
  Stream& stream = all.stream();
  const bool too_short = n > 1 && rank == 0;
  const std::int64_t k = n > 1 && rank == n - 1 ? 100 : 50;
  const auto part = [&](const Buffer& b) { return b.part(0, k); };
  fill(x, [](std::int64_t) { return 1; });
  all.send_recv(part(y), (rank + n - 1) % n, part(x), (rank + 1) % n);
  stream.record()->synchronize();
  try {
    stream.synchronize();
    EXPECT_FALSE(too_short);
  } catch (const Error& error) {
    EXPECT_TRUE(too_short) << error.what();
    EXPECT_EQ(error.code(), ExitCode::collective);
  }
  expect_that_the_next_sum_is_right();
}

TEST_F(Collectives, ends_only_after_its_work) {
  const Buffer x(Dtype::f32, 1025);
  fill(x, [](std::int64_t) { return 1; });
  EventPtr done;
  {
    const std::unique_ptr<Communicator> other = shared.make_communicator(world);
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    other->all_reduce(x, x, ReduceOp::sum);
    done = other->stream().record();
  }
  EXPECT_TRUE(reached(done));
  expect("all_reduce", x, [&](std::int64_t) { return n; });
}

TEST_F(Collectives, of_a_duplicate_run_beside_the_others) {
  const Buffer x(Dtype::f32, 1025);
  const Buffer y(Dtype::f32, 1025);
  fill(x, [](std::int64_t) { return 1; });
  fill(y, [&](std::int64_t) { return rank; });
  shared.gathers->all_reduce(y, y, ReduceOp::max);  // connects
  shared.gathers->stream().synchronize();
  std::promise<void> release;
  all.stream().enqueue([released = release.get_future().share()] { released.wait(); });
  all.all_reduce(x, x, ReduceOp::sum);
  const EventPtr done = all.stream().record();
  shared.gathers->all_reduce(y, y, ReduceOp::sum);
  shared.gathers->stream().synchronize();
  EXPECT_FALSE(reached(done));
  expect("all_reduce of the duplicate", y, [&](std::int64_t) { return n * (n - 1); });
  release.set_value();
  wait();
  expect("all_reduce", x, [&](std::int64_t) { return n; });
}

// With MPI nothing is registered, and the memory is the device's.
TEST_F(Collectives, reduces_registered_memory_and_counts_it) {
  constexpr std::int64_t k = 257 * registered_part_bytes / sizeof(float);
  const std::size_t before = shared.device->ledger().bytes();
  {
    const Array x = all.allocate({k}, Dtype::f32);
    const Array y = all.allocate({n * k}, Dtype::f32);
    EXPECT_GE(shared.device->ledger().bytes(), before + sizeof(float) * (n + 1) * k);
    const auto of_x = all.register_memory(x);
    const auto of_y = all.register_memory(y);
    fill(x, [&](std::int64_t i) { return static_cast<double>(rank + i); });
    all.all_reduce(x, x, ReduceOp::sum);
    all.all_gather(y, x);
    wait();
    const std::int64_t of_ranks = n * (n - 1) / 2;
    const auto sum = [&](std::int64_t i) { return static_cast<double>(of_ranks + n * i); };
    expect("all_reduce", x, sum);
    expect("all_gather", y, [&](std::int64_t i) { return sum(i % k); });
  }
  EXPECT_EQ(shared.device->ledger().bytes(), before);
  EXPECT_THROW((void)all.allocate({std::int64_t{1} << 33}, Dtype::f32), OutOfMemory);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run_rank_tests(argc, argv); }
