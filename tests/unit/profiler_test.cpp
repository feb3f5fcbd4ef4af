#include "core/profiler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <latch>
#include <thread>

#include "core/clock.h"
#include "core/ops.h"
#include "cpu/cpu_device.h"
#include "measure/step_trace.h"

namespace paceline {
namespace {

std::string scope_of(const CpuDevice& device, const Trace& trace, const Activity& a) {
  auto& scopes = const_cast<CpuDevice&>(device).scopes();
  return scopes.paths()[trace.spans[static_cast<std::size_t>(a.span)].scope].text;
}

class EventProfilerTest : public ::testing::Test {
 protected:
  CpuDevice device{std::size_t{1} << 24U, 1};
  std::unique_ptr<Ops> ops = device.make_ops({.precision = precision_named("fp32")});
  Array a = device.allocate({8, 4}, Dtype::f32, MemoryKind::workspace);
  Array b = device.allocate({4, 6}, Dtype::f32, MemoryKind::workspace);
  Array c = device.allocate({8, 6}, Dtype::f32, MemoryKind::workspace);
};

TEST_F(EventProfilerTest, TimesOperationsAndKnowsTheirWork) {
  ops->fill(a, 1);
  ops->fill(b, 1);
  const double before = host_seconds();
  const std::unique_ptr<Profiler> profiler = device.start_profiler();
  {
    const Scope block(device.scopes(), "block 3");
    ops->matmul(Matrix(c), Matrix(a), Matrix(b));
  }
  const Trace trace = profiler->finish();
  ASSERT_EQ(trace.activities.size(), 1U);
  const Activity& matmul = trace.activities.front();
  EXPECT_EQ(scope_of(device, trace, matmul), "block 3/matmul");
  EXPECT_EQ(trace.names.at(static_cast<std::size_t>(matmul.name)), "matmul");
  EXPECT_GT(matmul.begin, before);
  EXPECT_GE(matmul.end, matmul.begin);
  EXPECT_LT(matmul.end, host_seconds());
  ASSERT_EQ(trace.spans.size(), 2U);
  EXPECT_EQ(trace.spans[1].outer, 0);
  EXPECT_EQ(trace.spans[1].work.flops, 2 * 8 * 6 * 4);
  EXPECT_EQ(trace.spans[1].work.bytes, 4 * (8 * 4 + 4 * 6 + 8 * 6));
  EXPECT_EQ(trace.source, "events");
  EXPECT_EQ(trace.lost, 0);
}

TEST_F(EventProfilerTest, TimesWorkOnTheStreamThatRunsIt) {
  static constexpr auto pause = std::chrono::milliseconds(5);
  const std::unique_ptr<Profiler> profiler = device.start_profiler();
  Stream& stream = device.communication_stream();
  std::latch left(1);
  {
    const Scope scope(device.scopes(), "all_reduce",
                      {.bytes = 64, .stream = &stream, .elements = 16});
    stream.enqueue([&left] {
      left.wait();
      std::this_thread::sleep_for(pause);
    });
  }
  left.count_down();
  const Trace trace = profiler->finish();
  ASSERT_EQ(trace.activities.size(), 1U);
  const Activity& sent = trace.activities.front();
  EXPECT_EQ(sent.stream, 1);
  EXPECT_GE(sent.end - sent.begin, std::chrono::duration<double>(pause).count());
  // The span on the host only covers the enqueue.
  EXPECT_LT(trace.spans.front().end, sent.end);
}

TEST_F(EventProfilerTest, TimesAnOperationWithinAnotherOnlyAsPartOfIt) {
  const std::unique_ptr<Profiler> profiler = device.start_profiler();
  {
    const Scope attention(device.scopes(), "attention", {.flops = 1});
    ops->matmul(Matrix(c), Matrix(a), Matrix(b));
  }
  ops->matmul(Matrix(c), Matrix(a), Matrix(b));
  const Trace trace = profiler->finish();
  EXPECT_EQ(trace.spans.size(), 3U);
  ASSERT_EQ(trace.activities.size(), 2U);
  EXPECT_EQ(scope_of(device, trace, trace.activities[0]), "attention");
  EXPECT_EQ(scope_of(device, trace, trace.activities[1]), "matmul");
}

TEST_F(EventProfilerTest, RecordsNothingBeforeItsStartOrAfterItsEnd) {
  ops->matmul(Matrix(c), Matrix(a), Matrix(b));
  const std::unique_ptr<Profiler> profiler = device.start_profiler();
  const Trace trace = profiler->finish();
  ops->matmul(Matrix(c), Matrix(a), Matrix(b));
  EXPECT_TRUE(trace.activities.empty());
  EXPECT_TRUE(trace.spans.empty());
}

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
