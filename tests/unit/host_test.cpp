// CPU quotas, read from /proc and /sys trees that the test creates.

#include "core/host.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "temp_folder.h"

namespace paceline {
namespace {

class CpuQuota : public testing::Test {
 protected:
  [[nodiscard]] double quota() const { return cpu_quota(temp_.path()); }
  // Of the process's control groups, in the format of /proc/self/cgroup.
  void groups(const std::string& lines) const { temp_.write("proc/self/cgroup", lines); }
  void write(const std::string& file, const std::string& text) const {
    temp_.write("sys/fs/cgroup/" + file, text);
  }

 private:
  TempFolder temp_;
};

TEST_F(CpuQuota, IsInfiniteWithoutALimit) {
  EXPECT_TRUE(std::isinf(quota()));
  groups("0::/job");
  EXPECT_TRUE(std::isinf(quota()));
  write("job/cpu.max", "max 100000");
  EXPECT_TRUE(std::isinf(quota()));
  groups("3:cpu:/job");
  write("cpu/job/cpu.cfs_quota_us", "-1");
  write("cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_TRUE(std::isinf(quota()));
}

TEST_F(CpuQuota, IsTheLeastOfTheGroupAndItsAncestors) {
  groups("0::/user/job");
  write("user/job/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
  write("user/cpu.max", "25000 50000");
  EXPECT_EQ(quota(), 0.5);
  write("user/cpu.max", "300000 100000");
  EXPECT_EQ(quota(), 1.5);
}

// A container's namespace may hide its own path: the quota is at the top of what it sees.
TEST_F(CpuQuota, IsFoundAtTheTopWhereTheGroupItselfIsHidden) {
  groups("0::/docker/0123");
  write("cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, OfVersion1IsThatOfTheCpuController) {
  groups("5:cpuset:/other\n4:cpu,cpuacct:/job\n0::/none");
  write("cpuset/other/cpu.cfs_quota_us", "1");
  write("cpuset/other/cpu.cfs_period_us", "100000");
  write("cpu/job/cpu.cfs_quota_us", "50000");
  write("cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 0.5);
  write("cpu/cpu.cfs_quota_us", "10000");
  write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 0.1);
}

TEST(AllowedCores, AreThoseOfTheAffinity) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  const std::vector<int> cores = allowed_cores();
  EXPECT_GE(cores.size(), static_cast<std::size_t>(CPU_COUNT(&mine)));
  EXPECT_TRUE(std::is_sorted(cores.begin(), cores.end()));
}

}  // namespace
}  // namespace paceline
