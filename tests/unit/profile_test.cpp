// Profiles of handmade traces: two steps of a forward and backward pass with one exchange.

#include "measure/profile.h"

#include <fmt/format.h>
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

using Texts = std::vector<std::string>;

Texts shown(const std::vector<KernelUse>& uses) {
  Texts lines;
  for (const KernelUse& use : uses) {
    lines.push_back(fmt::format("{} / {} / {}: {} calls, {} s, {} FLOPs, {} B{}{}", use.phase,
                                use.operation, use.kernel, use.calls, use.seconds, use.flops,
                                use.bytes, use.is_product() ? ", product" : "",
                                use.communicates ? ", collective" : ""));
  }
  return lines;
}

Texts shown(const std::vector<ScopeUse>& uses) {
  Texts lines;
  for (const ScopeUse& use : uses) {
    lines.push_back(fmt::format("{}: {} calls, {} s, {} FLOPs, {} B{}", use.path, use.calls,
                                use.seconds, use.flops, use.bytes,
                                use.is_operation ? ", operation" : ""));
  }
  return lines;
}

TEST(ProfileTest, CountsKernelsByWhatLaunchedThemTheMostExpensiveFirst) {
  // An operation's work is counted to the longest of its kernels.
  EXPECT_EQ(
      shown(profile_of(two_steps()).kernels),
      (Texts{"backward / all_reduce / ncclAllReduce: 1 calls, 20 s, 0 FLOPs, 1000 B, collective",
             "forward / matmul / gemm<float>: 2 calls, 20 s, 1200 FLOPs, 120 B, product",
             "forward / softmax / rows<4>: 1 calls, 6 s, 8 FLOPs, 40 B",
             "backward / backward / rows<4>: 1 calls, 5 s, 0 FLOPs, 0 B",
             "forward / matmul / rows<4>: 1 calls, 2 s, 0 FLOPs, 0 B, product"}));
}

TEST(ProfileTest, AddsUpWhatIsWithinAScope) {
  // Both blocks are one row; a collective is no part of the scope around it.
  EXPECT_EQ(shown(profile_of(two_steps()).scopes),
            (Texts{"forward: 1 calls, 28 s, 1208 FLOPs, 160 B",
                   "forward/blocks: 2 calls, 28 s, 1208 FLOPs, 160 B",
                   "forward/blocks/matmul: 2 calls, 22 s, 1200 FLOPs, 120 B, operation",
                   "forward/blocks/softmax: 1 calls, 6 s, 8 FLOPs, 40 B, operation",
                   "backward: 1 calls, 5 s, 0 FLOPs, 0 B",
                   "backward/all_reduce: 1 calls, 20 s, 0 FLOPs, 1000 B, operation"}));
}

TEST(ProfileTest, APhaseLeavesOutItsCollectivesAndTheStepDoesNot) {
  Texts lines;
  for (const PhaseUse& use : profile_of(two_steps()).phases) {
    lines.push_back(fmt::format("{}: {} s of {} s, kernels {} s, products {} s", use.phase,
                                use.busy, use.extent, use.kernels, use.products));
  }
  // In forward: 2 s between the products; 6 s in which two kernels run.
  EXPECT_EQ(lines, (Texts{"forward: 24 s of 26 s, kernels 28 s, products 22 s",
                          "backward: 5 s of 5 s, kernels 5 s, products 0 s",
                          "step: 44 s of 50 s, kernels 53 s, products 22 s"}));
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
  EXPECT_EQ(shown(profile.scopes),
            (Texts{"backward: 1 calls, 2 s, 0 FLOPs, 0 B", "forward: 1 calls, 1 s, 0 FLOPs, 0 B",
                   "forward/blocks: 1 calls, 1 s, 0 FLOPs, 0 B",
                   "forward/blocks/softmax: 1 calls, 1 s, 0 FLOPs, 0 B"}));
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
