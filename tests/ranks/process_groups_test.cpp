// Process groups under mpirun: Worlds made by World::split(), and their communicators, for 2 x 2
// and 2 x 3 ranks. A rank's contribution depends on its rank in the launch, so that the results of
// all groups differ.
//   process_groups_test mpi|nccl [GoogleTest's options]

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/communicator.h"
#include "core/world.h"
#include "tests/ranks/guarded_buffer.h"

namespace paceline {
namespace {

constexpr int rows = 2;

// Values that differ between ranks and parts; their sums over 6 ranks are exact.
double moved(int rank, std::int64_t i) {
  return static_cast<double>((37 * rank + 11 * i) % 251 - 125);
}

struct Group {
  Group(int color, int key, std::vector<int> ranks)
      : world(shared.world->split(color, key)),
        communicator(shared.make_communicator(*world)),
        members(std::move(ranks)) {}

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  // The sum of the members' contributions.
  [[nodiscard]] double sum(std::int64_t i) const {
    double total = 0;
    for (const int member : members) total += moved(member, i);
    return total;
  }

  std::unique_ptr<World> world;
  std::unique_ptr<Communicator> communicator;
  std::vector<int> members;  // ranks in the launch
};

// Rank r is in row r / columns, column r % columns.
class ProcessGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(world.size() % rows, 0);
    shared.failures = 0;
    std::vector<int> of_row;
    for (int c = 0; c < columns; ++c) of_row.push_back(my_row * columns + c);
    row = std::make_unique<Group>(my_row, rank, of_row);
    std::vector<int> of_column;
    for (int r = 0; r < rows; ++r) of_column.push_back(r * columns + my_column);
    column = std::make_unique<Group>(my_column, rank, of_column);
  }

  World& world = *shared.world;
  const int n = world.size();
  const int rank = world.rank();
  const int columns = std::max(1, n / rows);
  const int my_row = rank / columns;
  const int my_column = rank % columns;
  std::unique_ptr<Group> row;
  std::unique_ptr<Group> column;
};

void wait() { shared.device->communication_stream().synchronize(); }

// A collective with its buffers: enqueued by start(), checked after the stream has completed.
struct Call {
  std::string what;
  std::shared_ptr<Buffer> send;
  std::shared_ptr<Buffer> recv;  // empty: in place
  std::function<void(Communicator& c, const Tensor& recv, const Tensor& send)> collective;
  Formula result;

  [[nodiscard]] const Tensor& output() const { return recv ? *recv : *send; }
  void start(Communicator& c) const { collective(c, output(), *send); }
  void check() const { expect(what, output(), result); }
};

// One collective of each kind, of k elements per part.
std::vector<Call> calls_of(const Group& group, std::int64_t k) {
  const int n = group.size();
  const int place = group.communicator->rank();
  const int last = n - 1;
  const auto buffer = [](std::int64_t size) { return std::make_shared<Buffer>(Dtype::f32, size); };
  const auto sum = [&group](std::int64_t first) -> Formula {
    return [&group, first](std::int64_t i) { return group.sum(first + i); };
  };
  const auto of_member = [&group](int member, std::int64_t first = 0) -> Formula {
    const int of_launch = group.members.at(static_cast<std::size_t>(member));
    return [of_launch, first](std::int64_t i) { return moved(of_launch, first + i); };
  };
  const auto by_part = [=](std::int64_t first) -> Formula {
    return [=](std::int64_t i) { return of_member(static_cast<int>(i / k), first)(i % k); };
  };
  using C = Communicator;
  using T = const Tensor&;
  const ReduceOp add = ReduceOp::sum;
  std::vector<Call> calls = {
      {"all_reduce", buffer(k), buffer(k),
       [=](C& c, T recv, T send) { c.all_reduce(recv, send, add); }, sum(0)},
      {"reduce_scatter", buffer(n * k), buffer(k),
       [=](C& c, T recv, T send) { c.reduce_scatter(recv, send, add); }, sum(place * k)},
      {"all_gather", buffer(k), buffer(n * k),
       [](C& c, T recv, T send) { c.all_gather(recv, send); }, by_part(0)},
      {"broadcast", buffer(k), nullptr, [=](C& c, T data, T) { c.broadcast(data, last); },
       of_member(last)},
      {"reduce", buffer(k), nullptr, [=](C& c, T recv, T send) { c.reduce(recv, send, add, last); },
       place == last ? sum(0) : of_member(place)},
      {"all_to_all", buffer(n * k), buffer(n * k),
       [](C& c, T recv, T send) { c.all_to_all(recv, send); }, by_part(place * k)},
      {"send_recv", buffer(k), buffer(k),
       [=](C& c, T recv, T send) { c.send_recv(recv, (place + last) % n, send, (place + 1) % n); },
       of_member((place + last) % n)},
  };
  for (const Call& call : calls) fill(*call.send, of_member(place));
  return calls;
}

TEST_F(ProcessGroups, know_their_ranks) {
  EXPECT_EQ(row->world->rank(), my_column);
  EXPECT_EQ(row->world->size(), columns);
  EXPECT_EQ(column->world->rank(), my_row);
  EXPECT_EQ(column->world->size(), rows);
  for (const Group* group : {row.get(), column.get()}) {
    EXPECT_EQ(group->communicator->rank(), group->world->rank());
    EXPECT_EQ(group->communicator->size(), group->world->size());
    EXPECT_EQ(group->world->max(rank), group->members.back());
    EXPECT_EQ(group->world->broadcast(std::to_string(rank), 0),
              std::to_string(group->members.front()));
  }
}

// All collectives are in flight at once.
TEST_F(ProcessGroups, interleave_collectives_of_every_kind_on_both_axes) {
  std::vector<std::pair<Group*, Call>> calls;
  for (const std::int64_t k : {0, 1, 1025, (1 << 18) + 1}) {
    const std::vector<Call> in_row = calls_of(*row, k);
    const std::vector<Call> in_column = calls_of(*column, k);
    for (std::size_t i = 0; i < in_row.size(); ++i) {
      calls.emplace_back(row.get(), in_row[i]);
      calls.emplace_back(column.get(), in_column[in_row.size() - 1 - i]);
    }
  }
  for (const auto& [group, call] : calls) call.start(*group->communicator);
  wait();
  for (const auto& [group, call] : calls) {
    SCOPED_TRACE(group == row.get() ? "in a row" : "in a column");
    call.check();
  }
}

TEST_F(ProcessGroups, keep_control_apart_from_data) {
  std::vector<Call> calls;
  for (int i = 0; i < 20; ++i) {
    for (const Group* group : {row.get(), column.get()}) {
      calls.push_back(calls_of(*group, 10'000).front());
      calls.back().start(*group->communicator);
      EXPECT_EQ(group->world->max(rank), group->members.back());
      EXPECT_EQ(static_cast<int>(group->world->gather("x").size()),
                group->world->rank() == 0 ? group->size() : 0);
    }
  }
  wait();
  for (const Call& call : calls) call.check();
}

TEST_F(ProcessGroups, outlive_the_world_that_they_were_split_from) {
  std::unique_ptr<World> half = row->world->split(0, 0);
  const std::unique_ptr<World> again = half->split(0, 0);
  const std::unique_ptr<Communicator> communicator = shared.make_communicator(*half);
  half.reset();
  EXPECT_EQ(again->max(rank), row->members.back());
  const Buffer x(Dtype::f32, 3);
  fill(x, [&](std::int64_t i) { return moved(rank, i); });
  communicator->all_reduce(x, x, ReduceOp::sum);
  wait();
  expect("all_reduce", x, [&](std::int64_t i) { return row->sum(i); });
}

TEST_F(ProcessGroups, have_the_order_of_their_keys) {
  std::vector<int> reversed;
  for (int r = n - 1; r >= 0; --r) reversed.push_back(r);
  const Group group(0, -rank, reversed);
  EXPECT_EQ(group.world->rank(), n - 1 - rank);
  EXPECT_EQ(group.communicator->rank(), n - 1 - rank);
  const std::vector<Call> calls = calls_of(group, 5);
  for (const Call& call : calls) call.start(*group.communicator);
  wait();
  for (const Call& call : calls) call.check();
}

TEST_F(ProcessGroups, leave_out_ranks_of_a_negative_color) {
  const bool inside = rank != 1;
  const std::unique_ptr<World> others = world.split(inside ? 3 : -1, 0);
  ASSERT_EQ(others != nullptr, inside);
  if (!inside) return;
  ASSERT_EQ(others->size(), n - 1);
  EXPECT_EQ(others->rank(), rank == 0 ? 0 : rank - 1);
  const std::unique_ptr<Communicator> communicator = shared.make_communicator(*others);
  const Buffer x(Dtype::i32, 3);
  fill(x, [&](std::int64_t) { return rank; });
  communicator->all_reduce(x, x, ReduceOp::sum);
  wait();
  expect("all_reduce", x, [&](std::int64_t) { return n * (n - 1) / 2 - 1; });
}

TEST_F(ProcessGroups, work_while_another_group_is_idle) {
  if (my_row == 0) {
    for (int i = 0; i < 10; ++i) {
      const std::vector<Call> calls = calls_of(*row, 100);
      for (const Call& call : calls) call.start(*row->communicator);
      wait();
      for (const Call& call : calls) call.check();
      row->world->barrier();
    }
  }
  world.wait_idle();
  const Call together = calls_of(*column, 100).front();
  together.start(*column->communicator);
  wait();
  together.check();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run_rank_tests(argc, argv); }
