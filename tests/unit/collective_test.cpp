// The inputs of collectives whose results are known, the comparison with them, and what a sweep
// makes of a communicator that is wrong.

#include "experiments/collective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu_device.h"
#include "experiments/collective_check.h"
#include "experiments/collectives.h"
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

TEST(CollectivePattern, ReducesWhatIsSent) {
  for (const int ranks : {1, 3, 70}) {
    const Pattern sum(ranks, true, ReduceOp::sum, 1);
    const Pattern max(ranks, true, ReduceOp::max, 1);
    for (const std::int64_t i : {0, 1, 250, 251, 99999}) {
      double total = 0;
      double highest = -1e9;
      for (int r = 0; r < ranks; ++r) {
        total += sum.sent(r, i);
        highest = std::max(highest, max.sent(r, i));
      }
      EXPECT_EQ(sum.reduced(i), total);
      EXPECT_EQ(max.reduced(i), highest);
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

CollectiveBuffers::Allocate of(Device& device) {
  return [&device](const Shape& shape, Dtype dtype) {
    return device.allocate(shape, dtype, MemoryKind::communication);
  };
}

// Writes what a right communicator would, on one rank of `ranks`.
void answer(Device& device, const CollectiveBuffers& buffers, const Collective& op,
            const Pattern& pattern, int rank, std::int64_t k) {
  const Tensor& recv = buffers.call().recv;
  std::vector<float> values(static_cast<std::size_t>(recv.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(op.expected(pattern, rank, static_cast<std::int64_t>(i), k));
  }
  device.to_device(recv, values.data());
}

TEST(CollectiveCheck, PassesTheRightResultAndCountsWrongElements) {
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

// Of one rank, whose all_reduce spoils one element.
class WrongCommunicator final : public Communicator {
 public:
  explicit WrongCommunicator(Device& device) : device_(device) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string_view backend() const override { return "mpi"; }
  [[nodiscard]] std::unique_ptr<Communicator> first_ranks(int /*n*/) override {
    return std::make_unique<WrongCommunicator>(device_);
  }
  [[nodiscard]] Stream& stream() override { return device_.communication_stream(); }
  [[nodiscard]] bool is_watched() const override { return true; }
  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override {
    return device_.allocate(shape, dtype, kind);
  }
  [[nodiscard]] std::shared_ptr<void> register_memory(const Tensor& /*memory*/) override {
    return nullptr;
  }
  void all_reduce(Tensor recv, Tensor send, ReduceOp /*op*/) override {
    std::memcpy(recv.data, send.data, recv.bytes());
    recv.as<float>()[3] += 5;
  }
  void reduce_scatter(Tensor, Tensor, ReduceOp) override {}
  void all_gather(Tensor, Tensor) override {}
  void broadcast(Tensor, int) override {}
  void reduce(Tensor, Tensor, ReduceOp, int) override {}
  void all_to_all(Tensor, Tensor) override {}
  void send_recv(Tensor, int, Tensor, int) override {}

 private:
  Device& device_;
};

TEST(CollectivesExperiment, AWrongResultIsAMismatch) {
  Options options;
  options.collectives.bytes = {4000};
  options.run.sampler = {.warmup = 0, .steps = 2};
  ThreadWorld::run(1, [&](World& world) {
    std::vector<Backend> backends(1);
    backends[0].name = "mpi";
    backends[0].device = std::make_unique<CpuDevice>(std::size_t{1} << 26, 1);
    backends[0].communicator = std::make_unique<WrongCommunicator>(*backends[0].device);
    backends[0].ranks = 1;
    CollectivesExperiment experiment(options, world, std::move(backends));
    const std::vector<Case> cases = experiment.cases();
    ASSERT_EQ(cases.size(), 1U);
    Progress progress(false, 1, stderr);
    const CaseRecord record = experiment.run(cases.front(), progress);
    EXPECT_EQ(record.status, Status::mismatch);
    EXPECT_EQ(record.reason, "wrong elements: 1, the largest error is 5");
    EXPECT_EQ(record.samples.back().measured.front().size(), 2U);  // the times are kept
  });
}

}  // namespace
}  // namespace paceline
