// Profiles of handmade traces: two steps of a forward and backward pass with one exchange.

#include "measure/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "measure/step_trace.h"

namespace paceline {
namespace {

// Scope ids.
enum : ScopeId {
  outside,
  forward,
  block_0,
  block_1,
  product_0,
  product_1,
  softmax,
  backward,
  reduce
};

std::deque<ScopePath> scope_paths() {
  std::deque<ScopePath> paths;
  for (const char* text :
       {"", "forward", "forward/block 0", "forward/block 1", "forward/block 0/matmul",
        "forward/block 1/matmul", "forward/block 1/softmax", "backward", "backward/all_reduce"}) {
    paths.push_back({.name = text, .text = text});
  }
  return paths;
}

// Times that doubles represent exactly.
class TraceOfSteps {
 public:
  TraceOfSteps() {
    trace.names = {"gemm<float>(float*)", "paceline::rows<4>(int)", "ncclAllReduce()",
                   "cudaLaunchKernel", "cudaGetDevice"};
  }

  int span(ScopeId scope, int outer, double begin, const OpWork* work = nullptr) {
    trace.spans.push_back({.scope = scope,
                           .outer = outer,
                           .operation = work != nullptr,
                           .work = work == nullptr ? OpWork{} : *work,
                           .begin = begin,
                           .end = begin + 1});
    return static_cast<int>(trace.spans.size()) - 1;
  }
  void kernel(int name, int span, double begin, double end, int stream = 7) {
    trace.activities.push_back({.kind = ActivityKind::kernel,
                                .name = name,
                                .stream = stream,
                                .span = span,
                                .begin = begin,
                                .end = end});
  }

  // 100 units from `begin`: two products, one of which overlaps with the softmax after it; an
  // exchange that the last kernel hides in part.
  void step(double begin) {
    const OpWork product{.flops = 600, .bytes = 60};
    const OpWork rows{.flops = 8, .bytes = 40};
    const OpWork sent{.bytes = 1000, .elements = 250};
    const int f = span(forward, -1, begin);
    const int b0 = span(block_0, f, begin);
    const int p0 = span(product_0, b0, begin + 1, &product);
    kernel(0, p0, begin + 10, begin + 20);
    const int b1 = span(block_1, f, begin + 2);
    const int p1 = span(product_1, b1, begin + 2, &product);
    kernel(0, p1, begin + 22, begin + 32);
    kernel(1, p1, begin + 32, begin + 34);  // a product's second, shorter kernel
    const int s = span(softmax, b1, begin + 3, &rows);
    kernel(1, s, begin + 30, begin + 36);
    const int b = span(backward, -1, begin + 4);
    const int r = span(reduce, b, begin + 5, &sent);
    kernel(2, r, begin + 40, begin + 60, 20);
    kernel(1, b, begin + 45, begin + 50);
    trace.activities.push_back({.kind = ActivityKind::launch,
                                .name = 3,
                                .span = p0,
                                .begin = begin + 1,
                                .end = begin + 2});
    trace.activities.push_back(
        {.kind = ActivityKind::call, .name = 4, .begin = begin + 2, .end = begin + 3});
  }

  Trace trace{.source = "cupti"};
};

HostInterval interval(double begin) { return {.begin = begin, .end = begin + 100}; }

StepTrace two_steps() {
  TraceOfSteps made;
  made.step(0);
  made.step(200);
  made.step(400);
  made.trace.lost = 2;
  return by_step(made.trace, scope_paths(), {interval(0)}, {interval(200), interval(400)});
}

TEST(StepTraceTest, LeavesOutWhatCameBeforeAndNumbersTheRest) {
  const StepTrace trace = two_steps();
  ASSERT_EQ(trace.spans.size(), 16U);
  ASSERT_EQ(trace.activities.size(), 16U);
  EXPECT_EQ(trace.spans[0].step, 0);
  EXPECT_EQ(trace.spans[2].outer, 1);
  EXPECT_EQ(trace.spans[10].outer, 9);
  EXPECT_EQ(trace.spans[15].step, 1);
  EXPECT_EQ(trace.path_of(trace.activities[0]), "forward/block 0/matmul");
  EXPECT_EQ(trace.path_of(trace.activities[8]), "forward/block 0/matmul");
  EXPECT_EQ(trace.activities[8].step, 1);
  EXPECT_EQ(trace.lost, 2);
}

TEST(StepTraceTest, LeavesOutWhatBeganBetweenStepsOrAfterThem) {
  TraceOfSteps made;
  for (const double begin : {210, 350, 410, 501}) {
    made.kernel(0, made.span(forward, -1, begin), begin, begin + 10);
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
  made.kernel(0, f, 250, 251);
  made.kernel(0, f, 450, 451);
  const StepTrace trace =
      by_step(made.trace, scope_paths(), {interval(50)}, {interval(200), interval(400)});
  ASSERT_EQ(trace.spans.size(), 1U);
  EXPECT_EQ(trace.spans[0].step, captured);
  ASSERT_EQ(trace.activities.size(), 2U);
  const StepProfile profile = profile_of(trace);
  ASSERT_EQ(profile.scopes.size(), 1U);
  EXPECT_EQ(profile.scopes[0].calls, 1);  // per step, although it was entered once
  EXPECT_EQ(profile.scopes[0].seconds, 1);
}

TEST(StepTraceTest, KeepsTheFirstSteps) {
  StepTrace trace = two_steps();
  keep_first_steps(trace, 1);
  EXPECT_EQ(trace.activities.size(), 8U);
  EXPECT_EQ(trace.spans.size(), 8U);
  EXPECT_EQ(trace.steps.size(), 1U);
  for (const StepActivity& a : trace.activities) EXPECT_EQ(a.step, 0);
  EXPECT_EQ(trace.path_of(trace.activities[0]), "forward/block 0/matmul");
}

TEST(StepTraceTest, AnExchangeIsHiddenWhileAnotherStreamComputes) {
  const StepTrace trace = two_steps();
  EXPECT_EQ(communication_overlap({trace}), 5.0 / 20);
  StepTrace other = trace;
  for (StepActivity& a : other.activities) a.stream = 7;  // no overlap
  EXPECT_EQ(communication_overlap({trace, other}), 5.0 / 40);
  std::erase_if(other.activities, [&](const StepActivity& a) { return other.communicates(a); });
  EXPECT_TRUE(std::isnan(communication_overlap({other})));
}

TEST(ProfileTest, CountsKernelsByWhatLaunchedThem) {
  const StepProfile profile = profile_of(two_steps());
  ASSERT_EQ(profile.kernels.size(), 5U);
  // The most expensive first.
  const KernelUse& reduced = profile.kernels[0];
  EXPECT_EQ(reduced.phase, "backward");
  EXPECT_EQ(reduced.operation, "all_reduce");
  EXPECT_EQ(reduced.kernel, "ncclAllReduce");
  EXPECT_TRUE(reduced.communicates);
  const KernelUse& product = profile.kernels[1];
  EXPECT_EQ(product.operation, "matmul");
  EXPECT_EQ(product.kernel, "gemm<float>");
  EXPECT_TRUE(product.is_product());
  EXPECT_EQ(product.calls, 2);  // those of both blocks
  EXPECT_EQ(product.seconds, 20);
  EXPECT_EQ(product.flops, 1200);
  EXPECT_EQ(product.bytes, 120);
  const KernelUse& rows = profile.kernels[2];
  EXPECT_EQ(rows.operation, "softmax");
  EXPECT_EQ(rows.kernel, "rows<4>");
  EXPECT_EQ(rows.flops, 8);
  const KernelUse& second = profile.kernels[4];
  EXPECT_EQ(second.operation, "matmul");
  EXPECT_EQ(second.seconds, 2);
  EXPECT_EQ(second.flops, 0);  // counted to the longer kernel of its product
}

TEST(ProfileTest, AddsUpWhatIsWithinAScope) {
  const StepProfile profile = profile_of(two_steps());
  std::vector<std::string> paths;
  for (const ScopeUse& use : profile.scopes) paths.push_back(use.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"forward", "forward/blocks", "forward/blocks/matmul",
                                             "forward/blocks/softmax", "backward",
                                             "backward/all_reduce"}));
  const ScopeUse& all = profile.scopes[0];
  EXPECT_EQ(all.calls, 1);
  EXPECT_EQ(all.seconds, 28);
  EXPECT_EQ(all.flops, 1208);
  EXPECT_EQ(all.bytes, 160);
  EXPECT_FALSE(all.is_operation);
  const ScopeUse& blocks = profile.scopes[1];
  EXPECT_EQ(blocks.calls, 2);
  EXPECT_EQ(blocks.seconds, 28);
  const ScopeUse& products = profile.scopes[2];
  EXPECT_TRUE(products.is_operation);
  EXPECT_EQ(products.calls, 2);
  EXPECT_EQ(products.seconds, 22);
  EXPECT_EQ(profile.scopes[4].seconds, 5);  // without the collective
  EXPECT_EQ(profile.scopes[4].bytes, 0);
  EXPECT_EQ(profile.scopes[5].seconds, 20);
}

TEST(ProfileTest, APhaseLeavesOutItsCollectivesAndTheStepDoesNot) {
  const StepProfile profile = profile_of(two_steps());
  ASSERT_EQ(profile.phases.size(), 3U);
  const PhaseUse& first = profile.phases[0];
  EXPECT_EQ(first.phase, "forward");
  EXPECT_EQ(first.extent, 26);
  EXPECT_EQ(first.busy, 24);  // 2 between the products; 6 in which two kernels run
  EXPECT_EQ(first.kernels, 28);
  EXPECT_EQ(first.products, 22);
  const PhaseUse& second = profile.phases[1];
  EXPECT_EQ(second.extent, 5);
  EXPECT_EQ(second.kernels, 5);
  const PhaseUse& step = profile.phases[2];
  EXPECT_EQ(step.phase, "step");
  EXPECT_EQ(step.extent, 50);
  EXPECT_EQ(step.busy, 24 + 20);
  EXPECT_EQ(step.kernels, 53);
}

TEST(ProfileTest, TheSameKernelCountsOnceWhateverLaunchesItAndNoCollective) {
  const std::vector<KernelUse> all = by_kernel(profile_of(two_steps()), {"forward", "backward"});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].kernel, "rows<4>");
  EXPECT_EQ(all[1].seconds, 6 + 2 + 5);
  EXPECT_EQ(all[1].calls, 3);
  const std::vector<KernelUse> of_forward = by_kernel(profile_of(two_steps()), {"forward"});
  ASSERT_EQ(of_forward.size(), 2U);
  EXPECT_EQ(of_forward[1].seconds, 8);
}

TEST(ProfileTest, ScopesStandInTheOrderInWhichTheTraceEntersThem) {
  TraceOfSteps made;  // scope ids exist before the trace
  const int b = made.span(backward, -1, 1);
  made.kernel(0, b, 10, 12);
  const int f = made.span(forward, -1, 2);
  made.kernel(0, made.span(softmax, made.span(block_1, f, 2), 3), 13, 14);
  const StepProfile profile = profile_of(by_step(made.trace, scope_paths(), {}, {interval(0)}));
  std::vector<std::string> paths;
  for (const ScopeUse& use : profile.scopes) paths.push_back(use.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"backward", "forward", "forward/blocks",
                                             "forward/blocks/softmax"}));
}

TEST(ProfileTest, AnOperationWithinAnotherIsCountedOnceAroundIt) {
  TraceOfSteps made;
  const OpWork whole{.flops = 10, .bytes = 100};
  const OpWork part{.flops = 4, .bytes = 50};
  const int f = made.span(forward, -1, 1);
  const int outer = made.span(product_0, f, 2, &whole);
  const int inner = made.span(softmax, outer, 3, &part);
  made.kernel(0, inner, 10, 12);
  const StepTrace trace = by_step(made.trace, scope_paths(), {}, {interval(0)});
  const StepProfile profile = profile_of(trace);
  EXPECT_EQ(profile.scopes.front().path, "forward");
  EXPECT_EQ(profile.scopes.front().flops, 10);
  EXPECT_EQ(profile.scopes.back().path, "forward/blocks/softmax");
  EXPECT_EQ(profile.scopes.back().flops, 4);
}

}  // namespace
}  // namespace paceline
