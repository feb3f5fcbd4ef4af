// Ranks with different command lines, versions or libraries are refused before anything runs.

#include "harness/launch.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <system_error>

#include "core/device.h"
#include "core/world.h"
#include "harness/early_end.h"
#include "tests/unit/environment_variable.h"
#include "thread_world.h"

namespace paceline {
namespace {

CommandLine model(GivenOptions options) {
  return {.version = "1", .experiment = "model", .options = std::move(options)};
}

// The error that every rank throws; empty: none.
std::string message(int ranks, const std::function<void(World&)>& work) {
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  ThreadWorld::run(ranks, [&](World& world) {
    try {
      work(world);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      said[static_cast<std::size_t>(world.rank())] = error.what();
    }
  });
  for (const std::string& one : said) EXPECT_EQ(one, said.front());
  return said.front();
}

// That of these command lines, by rank.
std::string message(const std::vector<CommandLine>& lines) {
  return message(static_cast<int>(lines.size()), [&](World& world) {
    require_same_command_line(world, lines[static_cast<std::size_t>(world.rank())]);
  });
}

TEST(Launch, names_the_first_option_that_differs_with_its_values_and_ranks) {
  EXPECT_EQ(
      message({model({{"--steps", "6"}}), model({{"--steps", "7"}}), model({{"--steps", "6"}})}),
      "--steps: 6 (ranks 0, 2), 7 (rank 1); give every rank the same options");
  EXPECT_EQ(message({model({{"--context", "64"}}), model({{"--deterministic", "true"}})}),
            "--context: 64 (rank 0), not given (rank 1); give every rank the same options");
}

TEST(Launch, ranks_may_have_different_memory_limits) {
  EXPECT_EQ(
      message({model({{"--memory-limit", "1GB"}}), model({{"--memory-limit", "2GB"}}), model({})}),
      "");
}

TEST(Launch, names_experiments_that_differ_before_their_options) {
  CommandLine ddp = model({{"--steps", "7"}});
  ddp.experiment = "ddp";
  const std::vector<CommandLine> lines = {model({}), ddp, ddp};
  EXPECT_EQ(message(lines),
            "experiment: model (rank 0), ddp (ranks 1, 2); give every rank the same command line");
}

TEST(Launch, names_program_versions_that_differ_before_all_else) {
  const CommandLine older = {.version = "0", .experiment = "ddp", .options = {}};
  EXPECT_EQ(message({model({}), older}),
            "program version: 1 (rank 0), 0 (rank 1); start the same program on every rank");
}

TEST(Launch, options_that_are_not_utf8_are_compared) {
  EXPECT_TRUE(message({model({{"--size", "tiny"}}), model({{"--size", "tiny"}}),
                       model({{"--size", "\xff"}})})
                  .starts_with("--size: tiny (ranks 0, 1), "));
}

TEST(Launch, ranks_without_a_device_agree_with_any) {
  const auto of_devices = [](const char* first, const char* second, const char* third) {
    return message(3, [&](World& world) {
      require_same_device(world, std::array{first, second, third}.at(world.rank()));
    });
  };
  EXPECT_EQ(of_devices("H200", "H200", ""), "");
  EXPECT_EQ(of_devices("", "", ""), "");
  EXPECT_TRUE(
      of_devices("H200", "H100", "H200").starts_with("device: H200 (ranks 0, 2), H100 (rank 1); "));
}

TEST(Launch, all_srun_tasks_must_be_mpi_ranks) {
  // Set if the tests themselves run under a launcher.
  const EnvironmentVariable tasks("SLURM_STEP_NUM_TASKS", nullptr);
  const EnvironmentVariable open_mpi("OMPI_COMM_WORLD_LOCAL_RANK", nullptr);
  const EnvironmentVariable mpich("MPI_LOCALRANKID", nullptr);
  EXPECT_NO_THROW(require_all_tasks(1));
  const EnvironmentVariable of_srun("SLURM_STEP_NUM_TASKS", "4");
  EXPECT_NO_THROW(require_all_tasks(4));
  EXPECT_THROW(require_all_tasks(1), EnvironmentError);
  const EnvironmentVariable of_mpirun("OMPI_COMM_WORLD_LOCAL_RANK", "0");
  EXPECT_NO_THROW(require_all_tasks(2));
}

TEST(ErrorReport, WhatTheSystemRefusesIsAnErrorOfTheEnvironment) {
  const OutOfMemory no_memory(100, MemoryLedger(), 50, "ncclCommInitRank");
  EXPECT_EQ(error_of(no_memory).code(), ExitCode::environment);
  EXPECT_NE(std::string(error_of(no_memory).what()).find("'ncclCommInitRank' asked for 100 B"),
            std::string::npos);
  const std::system_error no_thread(
      std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_EQ(error_of(no_thread).code(), ExitCode::environment);
}

TEST(ErrorReport, AnyOtherExceptionIsInternal) {
  EXPECT_EQ(error_of(std::runtime_error("unforeseen")).code(), ExitCode::internal);
}

TEST(ErrorTest, IsOneLineEvenIfItQuotesLineBreaks) {
  EXPECT_STREQ(UsageError("'a\nb\x1b[2J\x7f' is not an experiment").what(),
               "'a\\nb\\x1b[2J\\x7f' is not an experiment");
  EXPECT_STREQ(UsageError("f\xc3\xbcnf").what(), "f\xc3\xbcnf");
}

Error error_of(World& world, const std::function<void()>& work) {
  try {
    collectively(world, work);
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::done, ""};
}

TEST(CollectivelyTest, AnErrorOfOneRankIsThrownOnAllRanksAndNamesIt) {
  ThreadWorld::run(3, [](World& world) {
    const Error error = error_of(world, [&] {
      if (world.rank() == 2) throw EnvironmentError("no GPU");
    });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_STREQ(error.what(), "no GPU (rank 2)");
  });
}

TEST(CollectivelyTest, TheWorstErrorWins) {
  ThreadWorld::run(4, [](World& world) {
    const Error error = error_of(world, [&] {
      if (world.rank() == 0) throw UsageError("small");
      if (world.rank() == 3) throw StoppedError("large");
    });
    EXPECT_EQ(error.code(), ExitCode::stopped);
    EXPECT_STREQ(error.what(), "large (rank 3)");
  });
}

TEST(CollectivelyTest, AnErrorOfAllRanksIsThrownAsItIs) {
  ThreadWorld::run(2, [](World& world) {
    const Error error = error_of(world, [] { throw UsageError("--size: no"); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), "--size: no");
  });
}

}  // namespace
}  // namespace paceline
