// What a machine has, read from /proc and /sys trees that the test creates; and what ranks share.

#include "core/host.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "core/blas_kernels.h"
#include "core/error.h"
#include "cpu/cpu_device.h"
#include "devices.h"
#include "experiments/info/host_links.h"
#include "harness/launch.h"
#include "temp_folder.h"

namespace paceline {
namespace {

class Machine : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path root() const { return temp_.path(); }
  // Of the process's control groups, in the format of /proc/self/cgroup.
  void groups(const std::string& lines) const { temp_.write("proc/self/cgroup", lines); }
  // A file of a control group.
  void limit(const std::string& file, const std::string& text) const {
    temp_.write("sys/fs/cgroup/" + file, text);
  }
  void write(const std::string& file, const std::string& text) const { temp_.write(file, text); }

 private:
  TempFolder temp_;
};

class CpuQuota : public Machine {
 protected:
  [[nodiscard]] double quota() const { return cpu_quota(root()); }
};

TEST_F(CpuQuota, IsInfiniteWithoutALimit) {
  EXPECT_TRUE(std::isinf(quota()));
  groups("0::/job");
  EXPECT_TRUE(std::isinf(quota()));
  limit("job/cpu.max", "max 100000");
  EXPECT_TRUE(std::isinf(quota()));
  groups("3:cpu:/job");
  limit("cpu/job/cpu.cfs_quota_us", "-1");
  limit("cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_TRUE(std::isinf(quota()));
}

TEST_F(CpuQuota, IsTheLeastOfTheGroupAndItsAncestors) {
  groups("0::/user/job");
  limit("user/job/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
  limit("user/cpu.max", "25000 50000");
  EXPECT_EQ(quota(), 0.5);
  limit("user/cpu.max", "300000 100000");
  EXPECT_EQ(quota(), 1.5);
}

// A container's namespace may hide its own path: the quota is at the top of what it sees.
TEST_F(CpuQuota, IsFoundAtTheTopWhereTheGroupItselfIsHidden) {
  groups("0::/docker/0123");
  limit("cpu.max", "200000 100000");
  EXPECT_EQ(quota(), 2);
}

TEST_F(CpuQuota, OfVersion1IsThatOfTheCpuController) {
  groups("5:cpuset:/other\n4:cpu,cpuacct:/job\n0::/none");
  limit("cpuset/other/cpu.cfs_quota_us", "1");
  limit("cpuset/other/cpu.cfs_period_us", "100000");
  limit("cpu/job/cpu.cfs_quota_us", "50000");
  limit("cpu/job/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota(), 0.5);
  limit("cpu/cpu.cfs_quota_us", "10000");
  limit("cpu/cpu.cfs_period_us", "100000");
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

class AvailableTest : public Machine {
 protected:
  void write_cache(const std::string& cpu_and_index, int level, const std::string& size,
                   const std::string& cpus) const {
    const std::string folder = "sys/devices/system/cpu/" + cpu_and_index;
    write(folder + "/level", std::to_string(level));
    write(folder + "/size", size);
    write(folder + "/shared_cpu_list", cpus);
  }
};

TEST_F(AvailableTest, MemoryIsThatOfTheMachineWithoutControlGroups) {
  EXPECT_THROW((void)available_memory(root()), EnvironmentError);
  write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 5000 kB");
  EXPECT_EQ(available_memory(root()), 5000U * 1024);
  groups("0::/job");
  limit("job/memory.max", "max");
  limit("job/memory.current", "1000");
  EXPECT_EQ(available_memory(root()), 5000U * 1024);
}

TEST_F(AvailableTest, AControlGroupLeavesItsLimitLessWhatItUsesBesidesThePageCache) {
  write("proc/meminfo", "MemAvailable: 5000 kB");
  groups("0::/user/job");
  limit("user/job/memory.max", "100000");
  limit("user/job/memory.current", "70000");
  EXPECT_EQ(available_memory(root()), 30000U);
  limit("user/job/memory.stat", "anon 40000\ninactive_file 20000\nslab 1");
  EXPECT_EQ(available_memory(root()), 50000U);
  limit("user/job/memory.current", "130000");
  EXPECT_EQ(available_memory(root()), 0U);
}

TEST_F(AvailableTest, EveryAncestorLimitsAControlGroup) {
  groups("0::/user/job");
  limit("user/job/memory.max", "100000");
  limit("user/job/memory.current", "10000");
  limit("user/memory.max", "50000");
  limit("user/memory.current", "30000");
  EXPECT_EQ(available_memory(root()), 20000U);
  limit("memory.max", "40000");
  limit("memory.current", "35000");
  EXPECT_EQ(available_memory(root()), 5000U);
}

TEST_F(AvailableTest, Version1HasAControlGroupForMemory) {
  groups("5:cpu,cpuacct:/other\n4:memory:/job\n0::/none");
  limit("memory/other/memory.limit_in_bytes", "10");
  limit("memory/other/memory.usage_in_bytes", "10");
  limit("memory/job/memory.limit_in_bytes", "100000");
  limit("memory/job/memory.usage_in_bytes", "70000");
  limit("memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 20000");
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
    std::filesystem::remove_all(root() / "sys");
  }
}

constexpr VectorLevel sse42{"Nehalem", "SSE4.2"};
constexpr VectorLevel avx2{"Haswell", "AVX2 and FMA"};
constexpr VectorLevel avx512{"SkylakeX", "AVX-512"};

TEST(BlasKernels, OlderOnesAreNamedWithTheRemedy) {
  EXPECT_EQ(
      older_kernels("Prescott", avx512),
      "OpenBLAS computes with its kernels for Prescott (SSE3), but the processor has AVX-512: "
      "set OPENBLAS_CORETYPE=SkylakeX");
  for (const char* old : {"Core2", "Barcelona", "Nehalem", "Sandybridge", "Bulldozer"}) {
    EXPECT_NE(older_kernels(old, avx2), "") << old;
  }
  EXPECT_NE(older_kernels("Zen", avx512), "");
  EXPECT_NE(older_kernels("Prescott", sse42), "");
}

TEST(BlasKernels, OfTheProcessorsOwnInstructionsAreNotOld) {
  for (const char* as_new : {"Haswell", "Zen", "Excavator", "SkylakeX", "Zen9"}) {
    EXPECT_EQ(older_kernels(as_new, avx2), "") << as_new;
  }
  for (const char* newest : {"SkylakeX", "Cooperlake", "SapphireRapids"}) {
    EXPECT_EQ(older_kernels(newest, avx512), "") << newest;
  }
  EXPECT_EQ(older_kernels("Prescott", {}), "");  // not x86
}

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

namespace fs = std::filesystem;

class HostLinksTest : public testing::Test {
 protected:
  [[nodiscard]] fs::path sys() const { return temp_.path(); }

  void write(const fs::path& file, const std::string& text) const { temp_.write(file, text); }
  void link(const fs::path& from, const fs::path& to) const {
    fs::create_directories((sys() / from).parent_path());
    fs::create_symlink(sys() / to, sys() / from);
  }
  // Adds a PCI device at its place in sysfs.
  [[nodiscard]] fs::path add_pci(const std::string& address, const std::string& vendor,
                                 const std::string& kind) const {
    fs::path folder = fs::path("devices/pci0000:00/0000:00:01.0") / address;
    write(folder / "vendor", vendor);
    write(folder / "class", kind);
    write(folder / "numa_node", "1");
    write(folder / "current_link_speed", "2.5 GT/s PCIe");
    write(folder / "current_link_width", "8");
    write(folder / "max_link_speed", "32.0 GT/s PCIe");
    write(folder / "max_link_width", "16");
    link("bus/pci/devices/" + address, folder);
    return folder;
  }

 private:
  TempFolder temp_;
};

TEST_F(HostLinksTest, GpusAreNvidiasDisplayDevices) {
  (void)add_pci("0000:1b:00.0", "0x10de", "0x030200");
  (void)add_pci("0000:1b:00.1", "0x10de", "0x040300");  // the GPU's audio function
  (void)add_pci("0000:02:00.0", "0x1a03", "0x030000");  // the board's display controller
  write("devices/system/node/node0/x", "");
  write("devices/system/node/node1/x", "");
  write("devices/system/node/has_cpu", "");
  const nlohmann::ordered_json links = host_links(sys());
  EXPECT_EQ(links["numa_nodes"], 2);
  ASSERT_EQ(links["devices"].size(), 1U);
  const nlohmann::ordered_json& gpu = links["devices"][0];
  EXPECT_EQ(gpu["kind"], "gpu");
  EXPECT_EQ(gpu["pci_address"], "0000:1b:00.0");
  EXPECT_EQ(gpu["numa_node"], 1);
  EXPECT_EQ(gpu["pcie"]["per_lane"], "2.5 GT/s PCIe");
  EXPECT_EQ(gpu["pcie"]["lanes"], 8);
  EXPECT_EQ(gpu["pcie_most"]["lanes"], 16);
}

TEST_F(HostLinksTest, InterfacesHaveTheirSpeed) {
  const fs::path nic = add_pci("0000:0c:00.0", "0x15b3", "0x020700");
  fs::create_directories(sys() / nic / "virtio2");
  write("class/net/eth0/type", "1");
  write("class/net/eth0/speed", "25000");
  write("class/net/eth0/operstate", "up");
  link("class/net/eth0/device", nic / "virtio2");
  write("class/net/lo/type", "772");
  write("class/net/veth0/type", "1");
  write("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  link("class/infiniband/mlx5_0/device", nic);
  const nlohmann::ordered_json links = host_links(sys());
  ASSERT_EQ(links["devices"].size(), 2U);
  EXPECT_EQ(links["devices"][0]["name"], "eth0");
  EXPECT_EQ(links["devices"][0]["pci_address"], "0000:0c:00.0");
  EXPECT_EQ(links["devices"][0]["gbit_per_s"], 25);
  EXPECT_EQ(links["devices"][0]["state"], "up");
  EXPECT_EQ(links["devices"][1]["name"], "mlx5_0");
  EXPECT_EQ(links["devices"][1]["kind"], "infiniband");
  EXPECT_EQ(links["devices"][1]["gbit_per_s"], 400);
  EXPECT_EQ(links["devices"][1]["state"], "ACTIVE");
}

TEST_F(HostLinksTest, WhatIsUnknownIsLeftOut) {
  const fs::path gpu = add_pci("0000:1b:00.0", "0x10de", "0x030000");
  write(gpu / "numa_node", "-1");
  write(gpu / "current_link_speed", "Unknown");
  write(gpu / "max_link_width", "0");
  const nlohmann::ordered_json links = host_links(sys());
  ASSERT_EQ(links["devices"].size(), 1U);
  for (const char* name : {"numa_node", "pcie", "pcie_most"}) {
    EXPECT_TRUE(links["devices"][0][name].is_null()) << name;
  }
  EXPECT_TRUE(host_links(sys() / "absent")["devices"].empty());
}

}  // namespace
}  // namespace paceline
