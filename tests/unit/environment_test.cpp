#include "record/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <regex>

#include "cpu/cpu_device.h"
#include "thread_world.h"

namespace paceline {
namespace {

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> result;
  ThreadWorld::run(1, [&](World& world) {
    const CpuDevice device(1 << 20, 1);
    const RunInfo run = describe_run(world, device.info(), "", "");
    result = {run.environment.begin(), run.environment.end()};
  });
  return result;
}

TEST(Environment, NamesVersionsAndMachine) {
  const auto e = environment();
  EXPECT_EQ(e.at("mpi"), "threads 1.0");
  EXPECT_TRUE(std::regex_match(e.at("hdf5"), std::regex(R"(1\.\d+\.\d+)"))) << e.at("hdf5");
  EXPECT_FALSE(e.at("blas").empty());
  EXPECT_FALSE(e.at("compiler").empty());
  EXPECT_EQ(e.at("kernel").substr(0, 6), "Linux ");
  EXPECT_FALSE(e.at("os").empty());
  EXPECT_FALSE(e.at("cpu").empty());
}

TEST(Environment, KeepsOnlyVariablesOfTheList) {
  const std::map<std::string, std::string> kept = {
      {"NCCL_TEST_A", "1"},   {"OMPI_MCA_test", "a=b"}, {"CUDA_VISIBLE_DEVICES", "0,1"},
      {"SLURM_JOB_TEST", ""}, {"OMP_PLACES", "cores"},  {"UCX_TLS", "tcp"}};
  const std::vector<const char*> others = {"SLURM_TOKEN",    "driver",
                                           "MY_OMP_",        "CUDA_VISIBLE_DEVICES_X",
                                           "MY_NCCL_SECRET", "OMPI_MCA_orte_hnp_uri"};
  for (const auto& [name, value] : kept) setenv(name.c_str(), value.c_str(), 1);
  for (const char* name : others) setenv(name, "secret", 1);
  const auto e = environment();
  for (const char* name : others) unsetenv(name);
  for (const auto& [name, value] : kept) {
    unsetenv(name.c_str());
    EXPECT_EQ(e.at(name), value);
  }
  for (const auto& [name, value] : e) EXPECT_NE(value, "secret") << name;
  EXPECT_EQ(e.count("PATH"), 0U);
}

TEST(Environment, RanksAreGatheredOnRankZero) {
  ThreadWorld::run(3, [](World& world) {
    const CpuDevice device(1'000'000, world.rank() + 1);
    const RunInfo run = describe_run(world, device.info(), "paceline model", "model");
    EXPECT_EQ(run.command, "paceline model");
    EXPECT_EQ(run.experiment, "model");
    EXPECT_TRUE(std::regex_match(run.id(), std::regex(R"(\d{8}T\d{6}\.\d{3}Z)"))) << run.id();
    if (world.rank() != 0) {
      EXPECT_TRUE(run.ranks.empty());
      return;
    }
    ASSERT_EQ(run.ranks.size(), 3U);
    for (int r = 0; r < 3; ++r) {
      const RankInfo& rank = run.ranks[static_cast<std::size_t>(r)];
      EXPECT_EQ(rank.rank, r);
      EXPECT_EQ(rank.local_rank, r);
      EXPECT_EQ(rank.host, "threads");
      EXPECT_FALSE(rank.cpu.empty());
      EXPECT_TRUE(std::regex_match(rank.cores, std::regex(R"(\d+([-,]\d+)*)"))) << rank.cores;
      EXPECT_EQ(rank.device.kind, DeviceKind::cpu);
      EXPECT_EQ(rank.device.memory_bytes, 1'000'000U);
      EXPECT_EQ(rank.device.threads, r + 1);
      EXPECT_EQ(rank.device.uuid, "");
    }
  });
}

TEST(UtcNow, IsIso8601) {
  EXPECT_TRUE(std::regex_match(utc_now(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")))
      << utc_now();
}

}  // namespace
}  // namespace paceline
