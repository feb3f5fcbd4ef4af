// Steps of handmade traces: each of a forward pass with a product.

#include "measure/step_trace.h"

#include <gtest/gtest.h>

#include <deque>

namespace paceline {
namespace {

// Times that doubles represent exactly.
struct TraceOfSteps {
  enum : ScopeId { outside, forward, product };

  int span(ScopeId scope, int outer, double begin) {
    trace.spans.push_back({.scope = scope, .outer = outer, .begin = begin, .end = begin + 1});
    return static_cast<int>(trace.spans.size()) - 1;
  }
  void kernel(int span, double begin) {
    trace.activities.push_back({.span = span, .begin = begin, .end = begin + 1});
  }
  void step(double begin) {
    const int f = span(forward, -1, begin);
    kernel(span(product, f, begin + 1), begin + 10);
    kernel(f, begin + 20);
    kernel(-1, begin + 30);
  }
  // Of two steps, from 200 and from 400, after another one.
  [[nodiscard]] StepTrace by_step(double before) const {
    const auto interval = [](double begin) { return HostInterval{begin, begin + 100}; };
    std::deque<ScopePath> paths;
    for (const char* path : {"", "forward", "forward/matmul"}) paths.push_back({path, path});
    return paceline::by_step(trace, paths, {interval(before)}, {interval(200), interval(400)});
  }

  Trace trace{.lost = 2, .source = "cupti"};
};

TEST(StepTraceTest, LeavesOutWhatCameBeforeAndNumbersTheRest) {
  TraceOfSteps made;
  for (const double begin : {0, 200, 400}) made.step(begin);
  const StepTrace trace = made.by_step(0);
  ASSERT_EQ(trace.spans.size(), 4U);
  ASSERT_EQ(trace.activities.size(), 6U);
  EXPECT_EQ(trace.spans[0].step, 0);
  EXPECT_EQ(trace.spans[1].outer, 0);
  EXPECT_EQ(trace.spans[3].outer, 2);
  EXPECT_EQ(trace.spans[3].step, 1);
  EXPECT_EQ(trace.paths[trace.spans[3].scope], "forward/matmul");
  EXPECT_EQ(trace.activities[0].span, 1);
  EXPECT_EQ(trace.activities[3].span, 3);
  EXPECT_EQ(trace.activities[3].step, 1);
  EXPECT_EQ(trace.activities[5].span, -1);
  EXPECT_EQ(trace.lost, 2);
}

TEST(StepTraceTest, LeavesOutWhatBeganBetweenStepsOrAfterThem) {
  TraceOfSteps made;
  for (const double begin : {210, 350, 410, 501}) {
    made.kernel(made.span(made.forward, -1, begin), begin);
  }
  const StepTrace trace = made.by_step(0);
  ASSERT_EQ(trace.spans.size(), 2U);
  ASSERT_EQ(trace.activities.size(), 2U);
  EXPECT_EQ(trace.activities[0].begin, 210);
  EXPECT_EQ(trace.activities[1].begin, 410);
  EXPECT_EQ(trace.activities[1].step, 1);
  EXPECT_EQ(trace.activities[1].span, 1);
}

TEST(StepTraceTest, KeepsTheScopesOfACapture) {
  TraceOfSteps made;
  const int f = made.span(made.forward, -1, 1);
  for (const double begin : {250, 450}) made.kernel(f, begin);
  const StepTrace trace = made.by_step(50);
  ASSERT_EQ(trace.spans.size(), 1U);
  EXPECT_EQ(trace.spans[0].step, captured);
  ASSERT_EQ(trace.activities.size(), 2U);
  EXPECT_EQ(trace.activities[1].span, 0);
}

}  // namespace
}  // namespace paceline
