// The inputs and checks of collectives, and a sweep over a communicator with wrong results.

#include "experiments/collectives/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu_device.h"
#include "experiments/collectives/collectives.h"
#include "harness/cache_flush.h"
#include "one_rank_communicator.h"
#include "tests/unit/constants.h"
#include "thread_world.h"

namespace paceline {
namespace {

constexpr std::array<ReduceOp, 5> reductions = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min,
                                                ReduceOp::max, ReduceOp::avg};

TEST(CollectivePattern, EveryPartialResultIsExactInTheNarrowestDtypes) {
  for (const int ranks : {1, 2, 3, 6, 64, 65, 500}) {
    for (const ReduceOp op : reductions) {
      const Pattern pattern(ranks, true, op, 3);
      for (std::int64_t i = 0; i < 600; ++i) {
        double partial = op == ReduceOp::prod ? 1 : 0;
        for (int r = 0; r < ranks; ++r) {
          const double x = pattern.sent(r, i);
          partial = op == ReduceOp::prod ? partial * x : partial + x;
          ASSERT_EQ(static_cast<float>(bf16(static_cast<float>(x))), x);
          if (op == ReduceOp::min || op == ReduceOp::max) continue;
          ASSERT_EQ(static_cast<float>(bf16(static_cast<float>(partial))), partial) << ranks;
          ASSERT_EQ(static_cast<float>(f16(static_cast<float>(partial))), partial) << ranks;
        }
      }
    }
  }
}

TEST(CollectivePattern, RanksSlicesAndChecksDiffer) {
  const Pattern moved(6, false, ReduceOp::sum, 1);
  const Pattern again(6, false, ReduceOp::sum, 2);
  int same_rank = 0;
  int same_slice = 0;
  int same_salt = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    same_rank += moved.sent(1, i) == moved.sent(2, i);
    same_slice += moved.sent(1, i) == moved.sent(1, i + 1024);
    same_salt += moved.sent(1, i) == again.sent(1, i);
  }
  EXPECT_LT(same_rank, 100);
  EXPECT_LT(same_slice, 100);
  EXPECT_LT(same_salt, 100);
}

// https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
TEST(Collective, BusBandwidthFactorsAreThoseOfNcclTests) {
  struct Published {
    std::string_view formula;
    std::vector<double> values;  // per number of ranks
  };
  const std::vector<double> ranks = {2, 3, 4, 8};
  const Published one{"1", {1, 1, 1, 1}};
  const Published ring{"(n - 1) / n", {1. / 2, 2. / 3, 3. / 4, 7. / 8}};
  const std::map<std::string_view, Published> published = {
      {"all_reduce", {"2 (n - 1) / n", {1, 4. / 3, 3. / 2, 7. / 4}}},
      {"reduce_scatter", ring},
      {"all_gather", ring},
      {"broadcast", one},
      {"reduce", one},
      {"all_to_all", ring},
      {"send_recv", one}};
  ASSERT_EQ(collectives().size(), published.size());
  for (const Collective& op : collectives()) {
    SCOPED_TRACE(op.name);
    const Published& want = published.at(op.name);
    EXPECT_EQ(op.bus.formula, want.formula);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_DOUBLE_EQ(op.bus.of(ranks[i]), want.values[i]);
    }
  }
}

CollectiveBuffers::Allocate of(Device& device) {
  return [&device](const Shape& shape, Dtype dtype) {
    return device.allocate(shape, dtype, MemoryKind::communication);
  };
}

// Writes the correct result of one rank of `ranks`.
void answer(Device& device, const CollectiveBuffers& buffers, const Collective& op,
            const Pattern& pattern, int rank, std::int64_t k) {
  const Tensor& recv = buffers.call().recv;
  std::vector<float> values(static_cast<std::size_t>(recv.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(op.expected(pattern, rank, static_cast<std::int64_t>(i), k));
  }
  device.to_device(recv, values.data());
}

TEST(CollectiveCheck, PassesACorrectResultAndCountsWrongElements) {
  constexpr int ranks = 3;
  constexpr int rank = 0;
  constexpr std::int64_t k = 1000;
  for (const Collective& op : collectives()) {
    for (const bool in_place : {false, true}) {
      if (in_place ? !op.in_place : !op.out_of_place) continue;
      SCOPED_TRACE(std::string(op.name) + (in_place ? " in place" : ""));
      CpuDevice device(std::size_t{1} << 26, 1);
      const CollectiveBuffers buffers(device, of(device), op, Dtype::f32, k, rank, ranks, in_place);
      const Pattern pattern(ranks, op.reduces, ReduceOp::sum, 1);
      buffers.fill(pattern);
      const auto recv_size = buffers.call().recv.numel();
      if (!in_place) {
        EXPECT_EQ(buffers.check(pattern).wrong, recv_size);  // still poisoned
      }
      answer(device, buffers, op, pattern, rank, k);
      EXPECT_EQ(buffers.check(pattern).wrong, 0);
      const std::uint64_t right = buffers.check(pattern).checksum;

      float* data = buffers.call().recv.as<float>();
      data[recv_size - 1] += 2;
      data[5] = std::nanf("");
      EXPECT_EQ(buffers.check(pattern).wrong, 2);
      EXPECT_TRUE(std::isinf(buffers.check(pattern).largest_error));
      EXPECT_NE(buffers.check(pattern).checksum, right);
    }
  }
}

TEST(CollectiveCheck, LongMessagesAreFilledAndCheckedToTheirEnd) {
  constexpr std::int64_t k = (std::int64_t{1} << 19) + 3;
  constexpr std::int64_t n = 2 * k;  // more than the check copies to the host at a time
  constexpr int rank = 1;
  const Collective& op = collective_named("all_reduce");
  CpuDevice device(std::size_t{1} << 26, 1);
  const CollectiveBuffers buffers(device, of(device), op, Dtype::f32, k, rank, 2, false);
  ASSERT_EQ(buffers.call().recv.numel(), n);
  const Pattern pattern(2, true, ReduceOp::sum, 1);
  float* recv = buffers.call().recv.as<float>();
  float* send = buffers.call().send.as<float>();
  std::fill(recv, recv + n, -1.F);
  std::fill(send, send + n, -1.F);
  buffers.fill(pattern);
  EXPECT_TRUE(std::isnan(recv[n - 1]));
  EXPECT_EQ(send[n - 1], pattern.sent(rank, n - 1));
  answer(device, buffers, op, pattern, rank, k);
  EXPECT_EQ(buffers.check(pattern).wrong, 0);
  recv[n - 1] += 1;
  EXPECT_EQ(buffers.check(pattern).wrong, 1);
}

TEST(CollectiveCheck, AveragesMayBeOffByTwoUnitsInTheLastPlaceAndSumsByNone) {
  CpuDevice device(std::size_t{1} << 24, 1);
  const Collective& op = collective_named("all_reduce");
  for (const ReduceOp reduction : {ReduceOp::sum, ReduceOp::avg}) {
    CollectiveBuffers buffers(device, of(device), op, Dtype::f32, 100, 0, 3, false);
    buffers.set_reduction(reduction);
    const Pattern pattern(3, true, reduction, 1);
    buffers.fill(pattern);
    answer(device, buffers, op, pattern, 0, 100);
    float* data = buffers.call().recv.as<float>();
    std::int64_t i = 0;
    while (data[i] == 0) ++i;
    data[i] = std::nextafter(std::nextafter(data[i], 1e9F), 1e9F);
    EXPECT_EQ(buffers.check(pattern).wrong, reduction == ReduceOp::avg ? 0 : 1);
    data[i] *= 1.001F;
    EXPECT_EQ(buffers.check(pattern).wrong, 1);
  }
}

// A clock that counts calls: each takes 1 second, or as long as is said.
class CallClock final : public Stream {
 public:
  explicit CallClock(int seconds = 1) : seconds_(seconds) {}
  void call() { ++calls_; }
  [[nodiscard]] int calls() const { return calls_; }

  [[nodiscard]] EventPtr record() override { return std::make_shared<Point>(seconds_ * calls_); }
  void wait(const EventPtr& /*event*/) override {}
  void follow(Stream& /*other*/) override {}
  void enqueue(std::function<void()> host_function) override { host_function(); }
  void synchronize() override {}

 private:
  class Point final : public Event {
   public:
    explicit Point(int seconds) : seconds_(seconds) {}
    void synchronize() override {}
    [[nodiscard]] double seconds_since(const Event& earlier) const override {
      return seconds_ - dynamic_cast<const Point&>(earlier).seconds_;
    }

   private:
    int seconds_;
  };

  int seconds_;
  int calls_ = 0;
};

// Says it is nccl, for which no barrier is enqueued before the calls, or as is said.
class CountedCommunicator final : public OneRankCommunicator {
 public:
  CountedCommunicator(Device& device, CallClock& clock, BackendKind says = BackendKind::nccl)
      : OneRankCommunicator(device), clock_(clock), says_(says) {}
  [[nodiscard]] BackendKind backend() const override { return says_; }
  [[nodiscard]] Stream& stream() override { return clock_; }
  void all_reduce(Tensor recv, Tensor send, ReduceOp op) override {
    OneRankCommunicator::all_reduce(recv, send, op);
    clock_.call();
  }
  void broadcast(Tensor /*data*/, int /*root*/) override { clock_.call(); }
  void send_recv(Tensor, int, Tensor, int) override { clock_.call(); }

 private:
  CallClock& clock_;
  BackendKind says_;
};

CollectivesOptions with(const std::vector<std::pair<const char*, const char*>>& values) {
  CollectivesOptions options;
  for (const auto& [option, value] : values) options.factors.replace(option, value);
  return options;
}

using MakeCommunicator = std::function<std::unique_ptr<Communicator>(World&, Device&)>;

std::vector<Backend> one_backend(BackendKind kind, int ranks, MakeCommunicator make) {
  std::vector<Backend> backends(1);
  backends[0].kind = kind;
  backends[0].device = std::make_unique<CpuDevice>(std::size_t{1} << 26, 1);
  backends[0].make_communicator = [&device = *backends[0].device, make](World& world) {
    return make(world, device);
  };
  backends[0].ranks = ranks;
  return backends;
}

// The records of an experiment whose one backend has one rank.
std::vector<CaseRecord> records_of(const CollectivesOptions& options, BackendKind kind,
                                   const MakeCommunicator& make) {
  std::vector<CaseRecord> records;
  ThreadWorld::run(1, [&](World& world) {
    const auto experiment = collectives_experiment(options, world, one_backend(kind, 1, make));
    Progress progress;
    for (std::size_t i = 0; i < experiment->cases().size(); ++i) {
      records.push_back(experiment->run(i, progress));
    }
  });
  return records;
}

TEST(CollectivesExperiment, ATimeIsThatOfOneCall) {
  constexpr int steps = 3;
  const CollectivesOptions options = with({{"--backend", "nccl"},
                                           {"--bytes", "4000"},
                                           {"--cadence", "barrier,back-to-back,graph"},
                                           {"--warmup", "0"},
                                           {"--steps", "3"}});
  CallClock clock;
  const std::vector<CaseRecord> records = records_of(
      options, BackendKind::nccl,
      [&](World&, Device& device) { return std::make_unique<CountedCommunicator>(device, clock); });
  ASSERT_EQ(records.size(), 3U);
  for (const CaseRecord& record : records) {
    SCOPED_TRACE(to_text(record.factors.at("cadence")));
    EXPECT_EQ(record.status, Status::ok);
    EXPECT_EQ(record.samples.back().phase, "time");
    EXPECT_EQ(record.samples.back().measured.front(), std::vector<double>(steps, 1));
    EXPECT_EQ(value_in<double>(record.summary, "algbw_bytes_per_s"), 4000);
  }
  const int checks = 2;
  EXPECT_EQ(clock.calls(), 3 * checks + steps * (1 + 20 + 20));
}

TEST(CollectivesExperiment, TheCeilingOfTheLinksIsThatOfTheSlowestRank) {
  std::array<double, 2> ceilings{};
  ThreadWorld::run(2, [&](World& world) {
    CpuDevice device(std::size_t{1} << 28, 1);
    CallClock clock(world.rank() == 0 ? 1 : 4);
    CountedCommunicator communicator(device, clock, BackendKind::mpi);
    ceilings.at(static_cast<std::size_t>(world.rank())) = link_ceiling(device, world, communicator);
  });
  EXPECT_EQ(ceilings[0], ceilings[1]);
  EXPECT_EQ(ceilings[0], (1 << 26) / 4.0);
}

TEST(CacheFlush, WritesTwiceTheCache) {
  class Caching final : public CpuDevice {
   public:
    using CpuDevice::CpuDevice;
    [[nodiscard]] DeviceInfo info() const override {
      DeviceInfo info = CpuDevice::info();
      info.cache_bytes = 40 << 20;
      return info;
    }
  };
  Caching device(plenty, 1);
  const CacheFlush warm(device, CacheState::warm);
  EXPECT_EQ(device.ledger().bytes(), 0);
  const CacheFlush cold(device, CacheState::cold);
  EXPECT_EQ(device.ledger().bytes(), 80 << 20);
  EXPECT_EQ(flush_bytes(CacheState::cold, nullptr), 64 << 20);
}

TEST(CacheFlush, BuffersInTurnTogetherExceedTwiceTheCache) {
  CollectiveCase c;
  c.ranks = 1;
  c.cadence = Cadence::back_to_back;
  c.bytes.bytes = 16;
  EXPECT_EQ(buffer_sets(c, 40), 1);
  c.cache = CacheState::cold;
  EXPECT_EQ(buffer_sets(c, 40), 7);
  EXPECT_EQ(buffer_sets(c, 1000), c.launches());
}

TEST(CollectivesExperiment, TimesThatDoNotGrowWithTheBytesAreReported) {
  CollectivesOptions options =
      with({{"--backend", "mpi"}, {"--bytes", "1000,2000"}, {"--ranks", "2"}});
  options.fit = true;
  ThreadWorld::run(1, [&](World& world) {
    const auto experiment =
        collectives_experiment(options, world, one_backend(BackendKind::mpi, 2, nullptr));
    const auto output = [&](double seconds) {
      std::vector<SummaryRow> rows;
      rows.push_back(
          {0, {{"status", std::string("ok")}, {"message_bytes", 1e3}, {"time_median_s", 1e-6}}});
      rows.push_back(
          {1, {{"status", std::string("ok")}, {"message_bytes", 2e3}, {"time_median_s", seconds}}});
      testing::internal::CaptureStderr();
      EXPECT_EQ(experiment->closing_tables(rows).size(), 2U);
      return testing::internal::GetCapturedStderr();
    };
    EXPECT_EQ(output(2e-6), "");
    EXPECT_EQ(output(1e-6),
              "warning: the times of all_reduce (mpi, float32, --ranks 2) do not grow with the "
              "bytes; measure more or larger sizes\n");
  });
}

}  // namespace
}  // namespace paceline
