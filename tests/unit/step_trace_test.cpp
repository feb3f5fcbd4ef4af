// Steps of handmade traces: each of a forward pass with two kernels, and calls of the host.

#include "measure/step_trace.h"

#include <gtest/gtest.h>

#include <deque>

namespace paceline {
namespace {

// Scope ids.
enum : ScopeId { outside, forward, product };

std::deque<ScopePath> scope_paths() {
  std::deque<ScopePath> paths;
  for (const char* text : {"", "forward", "forward/matmul"}) {
    paths.push_back({.name = text, .text = text});
  }
  return paths;
}

// Times that doubles represent exactly.
struct TraceOfSteps {
  int span(ScopeId scope, int outer, double begin) {
    trace.spans.push_back({.scope = scope, .outer = outer, .begin = begin, .end = begin + 1});
    return static_cast<int>(trace.spans.size()) - 1;
  }
  void activity(ActivityKind kind, int span, double begin) {
    trace.activities.push_back({.kind = kind, .span = span, .begin = begin, .end = begin + 1});
  }
  void step(double begin) {
    const int f = span(forward, -1, begin);
    const int p = span(product, f, begin + 1);
    activity(ActivityKind::kernel, p, begin + 10);
    activity(ActivityKind::kernel, f, begin + 20);
    activity(ActivityKind::call, -1, begin + 2);
  }

  Trace trace{.source = "cupti"};
};

HostInterval interval(double begin) { return {.begin = begin, .end = begin + 100}; }

TEST(StepTraceTest, LeavesOutWhatCameBeforeAndNumbersTheRest) {
  TraceOfSteps made;
  made.step(0);
  made.step(200);
  made.step(400);
  made.trace.lost = 2;
  const StepTrace trace =
      by_step(made.trace, scope_paths(), {interval(0)}, {interval(200), interval(400)});
  ASSERT_EQ(trace.spans.size(), 4U);
  ASSERT_EQ(trace.activities.size(), 6U);
  EXPECT_EQ(trace.spans[0].step, 0);
  EXPECT_EQ(trace.spans[1].outer, 0);
  EXPECT_EQ(trace.spans[3].outer, 2);
  EXPECT_EQ(trace.spans[3].step, 1);
  EXPECT_EQ(trace.activities[0].span, 1);
  EXPECT_EQ(trace.activities[3].span, 3);
  EXPECT_EQ(trace.activities[3].step, 1);
  EXPECT_EQ(trace.activities[5].span, -1);
  EXPECT_EQ(trace.paths[trace.spans[3].scope], "forward/matmul");
  EXPECT_EQ(trace.lost, 2);
}

TEST(StepTraceTest, LeavesOutWhatBeganBetweenStepsOrAfterThem) {
  TraceOfSteps made;
  for (const double begin : {210, 350, 410, 501}) {
    made.activity(ActivityKind::kernel, made.span(forward, -1, begin), begin);
  }
  const StepTrace trace =
      by_step(made.trace, scope_paths(), {interval(0)}, {interval(200), interval(400)});
  ASSERT_EQ(trace.spans.size(), 2U);
  ASSERT_EQ(trace.activities.size(), 2U);
  EXPECT_EQ(trace.activities[0].begin, 210);
  EXPECT_EQ(trace.activities[1].begin, 410);
  EXPECT_EQ(trace.activities[1].step, 1);
  EXPECT_EQ(trace.activities[1].span, 1);
}

TEST(StepTraceTest, KeepsTheScopesOfACapture) {
  TraceOfSteps made;
  const int f = made.span(forward, -1, 1);
  made.activity(ActivityKind::kernel, f, 250);
  made.activity(ActivityKind::kernel, f, 450);
  const StepTrace trace =
      by_step(made.trace, scope_paths(), {interval(50)}, {interval(200), interval(400)});
  ASSERT_EQ(trace.spans.size(), 1U);
  EXPECT_EQ(trace.spans[0].step, captured);
  ASSERT_EQ(trace.activities.size(), 2U);
  EXPECT_EQ(trace.activities[1].span, 0);
}

}  // namespace
}  // namespace paceline
