#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "harness/conditions.h"
#include "thread_world.h"

namespace paceline {
namespace {

CaseRecord record_of(const std::vector<double>& times) {
  CaseRecord record;
  record.samples.push_back({.phase = "step", .warmup = {{}}, .measured = {times}});
  record.stop_reason = "steps";
  return record;
}

// The kinds of warnings of a record measured on one rank, such as "wide_interval,trend". On a GPU,
// where the kernels of this machine's BLAS do not count.
std::string warnings_of(const CaseRecord& record, int threads = 1) {
  std::string kinds;
  ThreadWorld::run(1, [&](World& world) {
    kinds =
        kinds_text(timing_warnings(record, world, {.kind = DeviceKind::cuda, .threads = threads}));
  });
  return kinds;
}

std::vector<double> around_one(std::size_t count) {
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    times.push_back(1 + 0.002 * static_cast<double>(i * 7 % 5));
  }
  return times;
}

TEST(TimingWarnings, NoneAboutSteadyTimes) {
  EXPECT_EQ(warnings_of(record_of(around_one(30))), "");
  EXPECT_EQ(warnings_of(record_of({1, 2, 3})), "");  // too few repetitions for a warning
}

TEST(TimingWarnings, AboutTheTimes) {
  EXPECT_EQ(warnings_of(record_of({1, 1.2, 1, 1.2, 1.1, 0.9, 1.1, 1.2, 0.9, 1})), "wide_interval");
  std::vector<double> modes = around_one(24);
  for (std::size_t i = 0; i < modes.size(); i += 3) modes[i] += 0.5;
  EXPECT_EQ(warnings_of(record_of(modes)), "wide_interval,two_modes");
}

TEST(TimingWarnings, AboutAnIntervalWiderThanATwentieth) {
  for (const auto& [longer, warnings] : {std::pair(1.051, ""), std::pair(1.052, "wide_interval")}) {
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) times.insert(times.end(), {1, longer});
    EXPECT_EQ(warnings_of(record_of(times)), warnings) << longer;
  }
}

TEST(TimingWarnings, AboutADriftAboveTwoPercent) {
  const auto rising = [](double by) {
    std::vector<double> times;
    for (int i = 0; i < 30; ++i) times.push_back(1 + by * i);
    return warnings_of(record_of(times));
  };
  EXPECT_EQ(rising(0.0013), "");  // 15 x 0.0013 / (1 + 7 x 0.0013) = 1.93%
  EXPECT_EQ(rising(0.0014), "trend");
  // 10 times of which 29 and 31 more pairs rise than fall: 28 and 30 over 11.18, 2.50 and 2.68.
  EXPECT_EQ(warnings_of(record_of({1.015, 1.01, 1.005, 1, 1.02, 1.03, 1.025, 1.04, 1.035, 1.042})),
            "");
  EXPECT_EQ(warnings_of(record_of({1.015, 1.01, 1.005, 1, 1.02, 1.03, 1.025, 1.035, 1.04, 1.042})),
            "trend");
}

TEST(TimingWarnings, AboutTheConditionsOfTheMeasurement) {
  CaseRecord record = record_of(around_one(30));
  record.stop_reason = "max_steps";
  EXPECT_EQ(warnings_of(record), "not_converged");
  record.stop_reason = "converged";
  record.add("limited_repetitions", std::int64_t{0});
  record.add("other_load_cores", 0.05);
  EXPECT_EQ(warnings_of(record), "");
  record.summary = {{"limited_repetitions", std::int64_t{3}}, {"other_load_cores", 0.8}};
  EXPECT_EQ(warnings_of(record), "clocks_limited,other_load");
  for (const auto& [cores, warnings] : {std::pair(0.19, ""), std::pair(0.21, "other_load")}) {
    record.summary = {{"other_load_cores", cores}};
    EXPECT_EQ(warnings_of(record), warnings) << cores;
  }
  record.summary = {{"other_load_cores", std::nan("")}};
  EXPECT_EQ(warnings_of(record), "");
  EXPECT_EQ(warnings_of(record, 2), "oversubscribed");
}

TEST(WarningLines, NameTheCasesOfEachKind) {
  EXPECT_EQ(warning_lines({{"small", ""}, {"xl", ""}}), "");
  const std::string one = warning_lines({{"small", "trend"}});
  EXPECT_TRUE(one.starts_with("warning: trend: the times drift")) << one;
  const std::string lines = warning_lines({{"a", "trend,two_modes"},
                                           {"b", ""},
                                           {"c", "trend"},
                                           {"d", "trend"},
                                           {"e", "two_modes,trend"}});
  EXPECT_NE(lines.find("warning: two_modes (2 of 5 cases: a; e): "), std::string::npos) << lines;
  EXPECT_NE(lines.find("warning: trend (4 of 5 cases: a; c; d; 1 more): "), std::string::npos)
      << lines;
  EXPECT_EQ(lines.find("other_load"), std::string::npos);
}

}  // namespace
}  // namespace paceline
