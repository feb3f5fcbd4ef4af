#include "harness/profile_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "records.h"

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
  ProfiledCase profiled{.phases = {"forward", "step"}, .host_phases = {"step"}};
  profiled.clocks = {{}, {.seconds = 30, .error = 0.25}};
  for (const double begin : {1000.0, 1030.0 + 0.5}) {  // rank 1 begins half a second later
    profiled.ranks.push_back(trace_from(begin));
  }
  profiled.events = {{{1.0, 2.0}, {3.0, 4.0}}};
  profiled.steps = profiled.steps_after = {{2.0, 2.0}, {2.0, 2.0}};
  return profiled;
}

template <class T = double>
const std::vector<T>& values(const CaseRecord& record, const std::string& path,
                             const std::string& name) {
  return values<T>(std::ranges::find(record.tables, path, &Table::path)->columns, name);
}

TEST(ProfileTablesTest, TimesAreOnRank0sClock) {
  CaseRecord record;
  add_profile_to(record, of_two_ranks());
  EXPECT_EQ(values(record, "trace", "begin"), (std::vector<double>{1, 1.5}));
  EXPECT_EQ(values(record, "trace/spans", "begin"), (std::vector<double>{0, 0.5}));
  EXPECT_EQ(values(record, "trace/steps", "end"), (std::vector<double>{2, 2.5}));
  EXPECT_EQ(values(record, "trace/ranks", "clock_offset"), (std::vector<double>{0, 30}));
}

TEST(ProfileTablesTest, ARankRefersToTextsOfAllRanks) {
  ProfiledCase profiled = of_two_ranks();
  profiled.ranks[1].names = {"other", "gemm<float>(float*)"};
  profiled.ranks[1].activities[0].name = 1;
  CaseRecord record;
  add_profile_to(record, profiled);
  using Texts = std::vector<std::string>;
  EXPECT_EQ(values<std::int64_t>(record, "trace", "name"), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(values<std::string>(record, "trace/names", "name"), (Texts{"gemm<float>(float*)"}));
  EXPECT_EQ(values<std::string>(record, "trace/names", "short_name"), (Texts{"gemm<float>"}));
  EXPECT_EQ(values<std::string>(record, "trace/scopes", "path"), (Texts{"forward/matmul"}));
  EXPECT_EQ(values<std::string>(record, "trace/kinds", "kind").front(), "kernel");
  EXPECT_EQ(values(record, "trace/spans", "flops"), (std::vector<double>{100, 100}));
}

TEST(ProfileTablesTest, PhasesHaveTimesByEventsAndTheirClock) {
  CaseRecord record;
  add_profile_to(record, of_two_ranks());
  const std::vector<double>& events = values(record, "trace/phases", "events");
  ASSERT_EQ(events.size(), 8U);
  EXPECT_EQ(events[0], 1);
  EXPECT_TRUE(std::isnan(events[1])) << "there are no events around the step";
  EXPECT_EQ(events[6], 4);
  EXPECT_EQ(values<std::int64_t>(record, "trace/phases", "host"),
            (std::vector<std::int64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
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
