#include "parallel/rehearsal_communicator.h"

#include <gtest/gtest.h>

#include "cpu/cpu_device.h"
#include "one_rank_communicator.h"

namespace paceline {
namespace {

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
