#include "harness/profile_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/clock.h"
#include "core/kernel_name.h"
#include "harness/gather.h"
#include "records.h"
#include "thread_world.h"

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

TEST(KernelNameTest, LeavesOutNamespacesParametersAndInnerArguments) {
  EXPECT_EQ(short_kernel_name("void paceline::(anonymous namespace)::rms_norm_kernel<float, 4>"
                              "(float*, int)"),
            "rms_norm_kernel<float, 4>");
  EXPECT_EQ(short_kernel_name("void cutlass::Kernel<Gemm<Tile<128, 64>, float>, 3>(Params)"),
            "Kernel<Gemm, 3>");
  EXPECT_EQ(short_kernel_name("void sm90_forward_kernel<ForwardTile<64, 128> >(Params)"),
            "sm90_forward_kernel<ForwardTile>");
  EXPECT_EQ(short_kernel_name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"),
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
}

TEST(KernelNameTest, NamesThatAreMangled) {
  EXPECT_EQ(demangled("_ZN8paceline4warmEi"), "paceline::warm(int)");
  EXPECT_EQ(demangled("nvjet_sm90_hss_128x256_64x4"), "nvjet_sm90_hss_128x256_64x4");
}

TEST(KernelNameTest, TruncatesLongNames) {
  const std::string name = short_kernel_name(std::string(100, 'k'));
  EXPECT_EQ(name, std::string(77, 'k') + "...");
}

// The offset of this rank's clock, ahead of the host's.
thread_local double ahead = 0;
double skewed() { return host_seconds() + ahead; }

TEST(ClockOffsetsTest, AnOffsetIsHowFarARankIsAhead) {
  ThreadWorld::run(3, [](World& world) {
    ahead = 100.0 * world.rank() + 7;
    const std::vector<ClockOffset> offsets = clock_offsets(world, skewed);
    if (world.rank() != 0) return;
    ASSERT_EQ(offsets.size(), 3U);
    EXPECT_EQ(offsets[0].seconds, 0);
    EXPECT_EQ(offsets[0].error, 0);
    for (std::size_t r = 1; r < offsets.size(); ++r) {
      EXPECT_NEAR(offsets[r].seconds, 100.0 * static_cast<double>(r), offsets[r].error);
      EXPECT_LT(offsets[r].error, 10);
    }
  });
}

// A rank reads its clock three times a round: rank 0 when it asks and when it has the answer (the
// first and third readings), another rank when it answers (the second). The fourth round takes half
// a second, a quarter each way; the others take eight, seven of them on the way to the other rank.
thread_local int readings = 0;
double scripted() {
  constexpr int fast_round = 3;
  const int round = readings / 3;
  const int reading = readings++ % 3;
  const bool fast = round == fast_round;
  const double began = 100.0 * round + ahead;
  if (reading == 0) return began;
  return began + (reading == 1 ? (fast ? 0.25 : 7) : (fast ? 0.5 : 8));
}

TEST(ClockOffsetsTest, TheFastestRoundCounts) {
  ThreadWorld::run(2, [](World& world) {
    ahead = 50.0 * world.rank();
    readings = 0;
    const std::vector<ClockOffset> offsets = clock_offsets(world, scripted);
    if (world.rank() != 0) return;
    EXPECT_EQ(offsets.back().seconds, 50);
    EXPECT_EQ(offsets.back().error, 0.25);
  });
}

}  // namespace
}  // namespace paceline
