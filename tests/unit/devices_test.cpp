#include "devices.h"

#include <gtest/gtest.h>

#include "harness/launch.h"

namespace paceline {
namespace {

// The only rank that calls, of several on a node of eight cores.
class Node final : public LoneWorld {
 public:
  explicit Node(int ranks) : ranks_(ranks) {}
  [[nodiscard]] int local_size() const override { return ranks_; }
  [[nodiscard]] int usable_cores() const override { return 8; }

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
