#include "devices.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace paceline {
namespace {

// The only rank that calls, of several on a node of eight cores.
class Node final : public World {
 public:
  explicit Node(int ranks) : ranks_(ranks) {}

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] int local_rank() const override { return 0; }
  [[nodiscard]] int local_size() const override { return ranks_; }
  [[nodiscard]] int usable_cores() const override { return 8; }
  [[nodiscard]] std::string host() const override { return "node"; }
  [[nodiscard]] std::string library() const override { return ""; }
  void barrier() override {}
  [[nodiscard]] Status agree(Status mine) override { return mine; }
  [[nodiscard]] double max(double mine) override { return mine; }
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  [[nodiscard]] std::string broadcast(const std::string& mine, int /*root*/) override {
    return mine;
  }
  void wait_idle() override {}
  [[nodiscard]] std::unique_ptr<World> split(int /*color*/, int /*key*/) override {
    return nullptr;
  }
  [[nodiscard]] Watchdog& watchdog() override { std::abort(); }
  [[noreturn]] void abort(ExitCode code) override { std::_Exit(static_cast<int>(code)); }

 private:
  int ranks_;
};

DeviceInfo cpu_of(int ranks, RunOptions run = {}) {
  Node node(ranks);
  run.device = DeviceChoice::cpu;
  return make_device(run, node).device->info();
}

TEST(MakeDevice, RanksOfANodeShareItsCores) {
  EXPECT_EQ(cpu_of(1).threads, 8);
  EXPECT_EQ(cpu_of(2).threads, 4);
  EXPECT_EQ(cpu_of(3).threads, 2);
  EXPECT_EQ(cpu_of(9).threads, 1);
  EXPECT_EQ(cpu_of(3, {.threads = 5}).threads, 5);
}

TEST(MakeDevice, RanksOfANodeShareItsMemory) {
  const auto alone = static_cast<double>(cpu_of(1).memory_bytes);
  // What is available changes while tests run.
  EXPECT_LT(static_cast<double>(cpu_of(4).memory_bytes), 0.5 * alone);
  EXPECT_EQ(cpu_of(4, {.memory_limit = 1000}).memory_bytes, 1000U);
}

}  // namespace
}  // namespace paceline
