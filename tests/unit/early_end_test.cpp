#include "harness/early_end.h"

#include <gtest/gtest.h>

#include <string>
#include <system_error>

#include "core/device.h"

namespace paceline {
namespace {

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

}  // namespace
}  // namespace paceline
