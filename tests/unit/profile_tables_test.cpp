#include "harness/profile_tables.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

// A trace of one rank: one step with one kernel. The step begins at `begin` on that rank's clock.
StepTrace trace_from(double begin) {
  StepTrace trace{.names = {"gemm<float>(float*)"},
                  .paths = {"", "forward/matmul"},
                  .steps = {{.begin = begin, .end = begin + 2}},
                  .source = "cupti"};
  StepSpan span;
  span.scope = 1;
  span.operation = true;
  span.work = {.flops = 100, .bytes = 10};
  span.begin = begin;
  span.end = begin + 0.5;
  trace.spans.push_back(span);
  StepActivity kernel;
  kernel.span = 0;
  kernel.stream = 7;
  kernel.begin = begin + 1;
  kernel.end = begin + 1.5;
  trace.activities.push_back(kernel);
  return trace;
}

ProfiledCase of_two_ranks() {
  ProfiledCase profiled{.phases = {"forward", "step"}};
  profiled.clocks = {{}, {.seconds = 30, .error = 0.25}};
  for (const double begin : {1000.0, 1030.0 + 0.5}) {  // rank 1 begins half a second later
    profiled.ranks.push_back(trace_from(begin));
    profiled.profiles.push_back(profile_of(profiled.ranks.back()));
  }
  profiled.events = {{{1.0, 2.0}, {3.0, 4.0}}};
  profiled.steps = profiled.steps_after = {{2.0}, {2.0}};
  return profiled;
}

const std::vector<double>& numbers(const CaseRecord& record, const std::string& path,
                                   std::string_view name) {
  for (const Table& table : record.tables) {
    if (table.path == path) {
      return std::get<std::vector<double>>(find_column(table.columns, name)->data);
    }
  }
  throw std::runtime_error(path);
}

TEST(ProfileTablesTest, TimesAreOnRank0sClock) {
  CaseRecord record;
  add_profile_to(record, of_two_ranks());
  EXPECT_EQ(numbers(record, "trace", "begin"), (std::vector<double>{1, 1.5}));
  EXPECT_EQ(numbers(record, "trace/spans", "begin"), (std::vector<double>{0, 0.5}));
  EXPECT_EQ(numbers(record, "trace/steps", "end"), (std::vector<double>{2, 2.5}));
  EXPECT_EQ(numbers(record, "trace/ranks", "clock_offset"), (std::vector<double>{0, 30}));
}

TEST(ProfileTablesTest, SharesAreRatesOverCeilings) {
  CaseRecord record;
  add_profile_to(record, of_two_ranks());
  EXPECT_EQ(numbers(record, "kernels", "flops_per_s"), (std::vector<double>{200, 200}));
  const Ceiling gemm{.unit = "FLOP/s", .rate = {.median = 400, .ci_low = 399, .ci_high = 401}};
  const Ceiling wide{.unit = "bytes/s", .rate = {.median = 40, .ci_low = 10, .ci_high = 90}};
  add_shares_of_ceilings(record, {gemm, gemm}, wide);
  EXPECT_EQ(numbers(record, "kernels", "flops_share"), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(numbers(record, "kernels/scopes", "flops_share").front(), 0.5);
  EXPECT_TRUE(std::isnan(numbers(record, "kernels", "bytes_share").front()))
      << "the interval of the ceiling is too wide";
}

// Flash attention as bf16x3: three products at 2,700 FLOP/s, beside others at 400.
TEST(ProfileTablesTest, FlashAttentionHasTheCeilingOfItsArithmetic) {
  CaseRecord record;
  record.tables = {
      {"kernels",
       {{"operation", "", std::vector<std::string>{"matmul", "flash_attention"}},
        {"flops_per_s", "", std::vector<double>{200, 600}},
        {"bytes_per_s", "", std::vector<double>{1, 1}}}},
      {"kernels/scopes",
       {{"rank", "", std::vector<std::int64_t>{0, 0, 0, 1}},
        {"scope", "",
         std::vector<std::string>{"forward", "forward/matmul", "forward/a/flash_attention",
                                  "forward/a/flash_attention"}},
        {"operation", "", std::vector<std::int64_t>{0, 1, 1, 1}},
        {"flops", "", std::vector<double>{2200, 400, 1800, 1800}},
        {"flops_per_s", "", std::vector<double>{220, 200, 600, 450}},
        {"bytes_per_s", "", std::vector<double>{1, 1, 1, 1}}}}};
  const auto ceiling = [](double rate) {
    return Ceiling{.rate = {.median = rate, .ci_low = rate, .ci_high = rate}};
  };
  const Ceiling gemm = ceiling(400);
  const Ceiling of_attention = ceiling(2700);
  add_shares_of_ceilings(record, {gemm, of_attention, 3}, gemm);
  EXPECT_EQ(numbers(record, "kernels", "flops_share"), (std::vector<double>{0.5, 600.0 / 900}));
  // 400 FLOPs take a second at the ceiling, 1,800 two: 2,200 / 3.
  const std::vector<double> want = {220 * 3 / 2200.0, 0.5, 600.0 / 900, 0.5};
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_DOUBLE_EQ(numbers(record, "kernels/scopes", "flops_share").at(i), want[i]) << i;
  }
}

TEST(ProfileTablesTest, HostTimesExistForThePhasesThatTheHostTimes) {
  const auto with_host = [](const std::vector<std::string>& host_phases) {
    CaseRecord record;
    record.samples = {{.phase = "forward", .warmup = {}, .measured = {{5, 7}, {8, 10}}},
                      {.phase = "step", .warmup = {}, .measured = {{9, 9}, {9, 9}}}};
    ProfiledCase profiled = of_two_ranks();
    profiled.host_phases = host_phases;
    add_profile_to(record, profiled);
    return record;
  };
  const CaseRecord step = with_host({"step"});
  EXPECT_EQ(numbers(step, "kernels/phases", "events")[0], 1.5);
  EXPECT_TRUE(std::isnan(numbers(step, "kernels/phases", "host")[0]));
  EXPECT_TRUE(std::isnan(value_in<double>(step.summary, "forward_host_s")));
  const CaseRecord both = with_host({"forward", "step"});
  EXPECT_EQ(numbers(both, "kernels/phases", "host"), (std::vector<double>{6, 9, 9, 9}));
  EXPECT_EQ(value_in<double>(both.summary, "forward_host_s"), 6);
}

TEST(ProfileTablesTest, EventsAndLostRecordsAreWarnings) {
  ProfiledCase profiled = of_two_ranks();
  CaseRecord record;
  add_profile_to(record, profiled);
  EXPECT_EQ(kinds_text(record.warnings), "");
  profiled.ranks[0].lost = 3;
  profiled.ranks[1].reason = "another tool has it";
  add_profile_to(record, profiled);
  EXPECT_EQ(kinds_text(record.warnings), "lost_records,timed_by_events");
  EXPECT_EQ(warnings_text(record.warnings),
            "3 records of rank 0 are lost; rank 1 is timed by events: another tool has it");
}

}  // namespace
}  // namespace paceline
