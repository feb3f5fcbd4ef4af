// Memory and caches, read from /proc and /sys trees that the test creates.

#include <gtest/gtest.h>

#include <string>

#include "core/error.h"
#include "cpu/cpu_device.h"
#include "temp_folder.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

class AvailableTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path root() const { return temp_.path(); }

  void write(const fs::path& file, const std::string& text) const { temp_.write(file, text); }
  void write_cache(const fs::path& cpu_and_index, int level, const std::string& size,
                   const std::string& cpus) const {
    const fs::path folder = "sys/devices/system/cpu" / cpu_and_index;
    write(folder / "level", std::to_string(level));
    write(folder / "size", size);
    write(folder / "shared_cpu_list", cpus);
  }

 private:
  TempFolder temp_;
};

TEST_F(AvailableTest, MemoryIsThatOfTheMachineWithoutControlGroups) {
  EXPECT_THROW((void)available_memory(root()), EnvironmentError);
  write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 5000 kB");
  EXPECT_EQ(available_memory(root()), 5000U * 1024);
  write("proc/self/cgroup", "0::/job");
  write("sys/fs/cgroup/job/memory.max", "max");
  write("sys/fs/cgroup/job/memory.current", "1000");
  EXPECT_EQ(available_memory(root()), 5000U * 1024);
}

TEST_F(AvailableTest, AControlGroupLeavesItsLimitLessWhatItUsesBesidesThePageCache) {
  write("proc/meminfo", "MemAvailable: 5000 kB");
  write("proc/self/cgroup", "0::/user/job");
  write("sys/fs/cgroup/user/job/memory.max", "100000");
  write("sys/fs/cgroup/user/job/memory.current", "70000");
  EXPECT_EQ(available_memory(root()), 30000U);
  write("sys/fs/cgroup/user/job/memory.stat", "anon 40000\ninactive_file 20000\nslab 1");
  EXPECT_EQ(available_memory(root()), 50000U);
  write("sys/fs/cgroup/user/job/memory.current", "130000");
  EXPECT_EQ(available_memory(root()), 0U);
}

TEST_F(AvailableTest, EveryAncestorLimitsAControlGroup) {
  write("proc/self/cgroup", "0::/user/job");
  write("sys/fs/cgroup/user/job/memory.max", "100000");
  write("sys/fs/cgroup/user/job/memory.current", "10000");
  write("sys/fs/cgroup/user/memory.max", "50000");
  write("sys/fs/cgroup/user/memory.current", "30000");
  EXPECT_EQ(available_memory(root()), 20000U);
  write("sys/fs/cgroup/memory.max", "40000");
  write("sys/fs/cgroup/memory.current", "35000");
  EXPECT_EQ(available_memory(root()), 5000U);
}

TEST_F(AvailableTest, Version1HasAControlGroupForMemory) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/job\n0::/none");
  write("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "10");
  write("sys/fs/cgroup/memory/other/memory.usage_in_bytes", "10");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "100000");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "70000");
  write("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 20000");
  EXPECT_EQ(available_memory(root()), 50000U);
}

// A folder's entries come in an order of their own: the last level first in one of the two trees,
// and last in the other.
TEST_F(AvailableTest, OnlyCachesOfTheLastLevelCountOncePerGroupOfCpus) {
  EXPECT_EQ(last_level_cache(root()), 0U);
  for (const int last : {0, 1}) {
    for (const std::string cpu : {"cpu0", "cpu1", "cpu2", "cpu3"}) {
      for (const int index : {0, 1}) {
        const std::string folder = cpu + "/cache/index" + std::to_string(index);
        if (index != last) write_cache(folder, 1, "32K", cpu.substr(3));
        if (index == last) write_cache(folder, 3, "4096K", cpu < "cpu2" ? "0-1" : "2-3");
      }
    }
    EXPECT_EQ(last_level_cache(root()), 2U * 4096 * 1024);
    fs::remove_all(root() / "sys");
  }
}

}  // namespace
}  // namespace paceline
