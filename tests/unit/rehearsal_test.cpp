#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>

#include "core/error.h"
#include "cpu/cpu_device.h"
#include "harness/case_run.h"
#include "one_rank_communicator.h"
#include "parallel/rehearsal_communicator.h"
#include "thread_world.h"

namespace paceline {
namespace {

// The result of fits_in_memory() on one rank, and its record.
struct Found {
  bool fits = true;
  CaseRecord record;
};

std::array<Found, 2> rehearse(const std::function<void(int rank)>& work,
                              const Prediction& predicted = {.memory_bytes = 2e9}) {
  std::array<Found, 2> found;
  ThreadWorld::run(2, [&](World& world) {
    Found& mine = found.at(static_cast<std::size_t>(world.rank()));
    mine.fits = fits_in_memory(world, mine.record, predicted, [&] { work(world.rank()); });
  });
  return found;
}

TEST(FitsInMemory, OneRankOutOfMemoryMakesTheCaseOom) {
  for (const int lacks : {0, 1}) {
    const auto found = rehearse([&](int rank) {
      const MemoryLedger ledger;
      if (rank == lacks) throw OutOfMemory(100, ledger, 50, "forward");
    });
    for (const Found& mine : found) {
      EXPECT_FALSE(mine.fits) << lacks;
      EXPECT_EQ(mine.record.status, Status::oom) << lacks;
      EXPECT_EQ(value_in<double>(mine.record.summary, "predicted_peak_bytes"), 2e9) << lacks;
    }
    const std::string& reason = found[0].record.reason;
    const std::string named =
        "rank " + std::to_string(lacks) +
        ": about 2.00 GB are needed, 50 B are available; 'forward' asked for 100 B";
    EXPECT_TRUE(reason.starts_with(named)) << reason;
  }
}

TEST(FitsInMemory, AnErrorOfOneRankIsThrownOnEveryRank) {
  ThreadWorld::run(2, [](World& world) {
    CaseRecord record;
    const auto work = [&] {
      if (world.rank() == 0) throw UsageError("no");
    };
    EXPECT_THROW((void)fits_in_memory(world, record, {}, work), Error);
  });
}

TEST(FitsInMemory, ACollectiveThatFailsOnOneRankIsThrownThereAtOnce) {
  std::promise<void> thrown;
  ThreadWorld::run(2, [&](World& world) {
    if (world.rank() == 1) {  // waits in the collective
      EXPECT_EQ(thrown.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
      return;
    }
    CaseRecord record;
    const auto work = [] { throw Error(ExitCode::collective, "no"); };
    EXPECT_THROW((void)fits_in_memory(world, record, {}, work), Error);
    thrown.set_value();
  });
}

TEST(FitsInMemory, TheReasonBeginsWithTheArithmetic) {
  const auto reason_of = [](const Prediction& predicted) {
    const std::string reason =
        rehearse([](int) { throw std::bad_alloc(); }, predicted)[0].record.reason;
    return reason.substr(0, reason.find(';'));
  };
  EXPECT_EQ(reason_of({.memory_bytes = 8e6, .flush_bytes = 1e6}),
            "rank 0: about 9.00 MB are needed, with 1.00 MB to flush the cache");
  EXPECT_EQ(reason_of({.memory_bytes = 8e6, .memory_formula = "B e = 8.00 MB"}),
            "rank 0: about 8.00 MB are needed: B e = 8.00 MB");
  EXPECT_EQ(reason_of({.memory_bytes = 8e6, .flush_bytes = 1e6, .memory_formula = "B e = 8.00 MB"}),
            "rank 0: about 9.00 MB are needed: B e = 8.00 MB, and 1.00 MB to flush the cache");
  EXPECT_EQ(reason_of({}), "rank 0: the host's own memory does not suffice");
}

// Another program may hold the memory, or a library need it.
TEST(FitsInMemory, WhereTheCaseByPredictionFitsTheReasonBeginsWithWhatDidNot) {
  const auto found = rehearse(
      [](int rank) {
        const MemoryLedger ledger;
        if (rank == 1) throw OutOfMemory(400'000'000, ledger, 300'000'000, "NCCL");
      },
      {.memory_bytes = 30e6});
  EXPECT_EQ(found[0].record.reason,
            "rank 1: 'NCCL' asked for 400 MB with 0 B of 300 MB in use; about 30.0 MB are needed");
}

class RecordingCommunicator final : public OneRankCommunicator {
 public:
  using OneRankCommunicator::OneRankCommunicator;
  void all_reduce(Tensor recv, Tensor, ReduceOp) override { note("all_reduce", recv); }
  void reduce_scatter(Tensor recv, Tensor, ReduceOp) override { note("reduce_scatter", recv); }
  void all_gather(Tensor recv, Tensor) override { note("all_gather", recv); }
  void broadcast(Tensor data, int) override { note("broadcast", data); }
  void reduce(Tensor recv, Tensor, ReduceOp, int) override { note("reduce", recv); }
  void all_to_all(Tensor recv, Tensor) override { note("all_to_all", recv); }
  void send_recv(Tensor recv, int, Tensor, int) override { note("send_recv", recv); }

  std::vector<std::string> calls;

 private:
  void note(const std::string& op, const Tensor& x) {
    calls.push_back(op + " " + std::to_string(x.numel()));
  }
};

// Calls every operation; all_reduce with several message sizes.
void call_all(Communicator& c, const Tensor& x) {
  c.all_reduce(x, x, ReduceOp::sum);
  c.all_reduce(x.slice(0, {4}), x.slice(0, {4}), ReduceOp::sum);
  c.all_reduce(x.slice(4, {4}), x.slice(4, {4}), ReduceOp::sum);
  c.reduce_scatter(x, x, ReduceOp::sum);
  c.all_gather(x, x);
  c.broadcast(x, 0);
  c.reduce(x, x, ReduceOp::sum, 0);
  c.all_to_all(x, x);
  c.send_recv(x, 0, x, 0);
}

const std::vector<std::string> each_once = {"all_reduce 8",     "all_reduce 4", "all_reduce 4",
                                            "reduce_scatter 8", "all_gather 8", "broadcast 8",
                                            "reduce 8",         "all_to_all 8", "send_recv 8"};

TEST(RehearsalCommunicator, EnqueuesNothingUntilItConnectsAndThenEachNotedCallOnce) {
  CpuDevice device(std::size_t{1} << 20, 1);
  RecordingCommunicator real(device);
  RehearsalCommunicator rehearsal(real, device.scopes());
  const Array x = device.allocate({8}, Dtype::f32, MemoryKind::communication);
  for (int step = 0; step < 3; ++step) call_all(rehearsal, x);
  EXPECT_TRUE(real.calls.empty());
  rehearsal.connect();
  EXPECT_EQ(real.calls, each_once);
  real.calls.clear();
  for (int step = 0; step < 2; ++step) {
    call_all(rehearsal, x);
    EXPECT_EQ(real.calls, each_once);
    real.calls.clear();
  }
}

}  // namespace
}  // namespace paceline
