// CUPTI attributes kernels to the scopes that launched them, in eager execution and in graphs.

#include "core/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/ops.h"
#include "cuda/cuda_backend.h"

namespace paceline {
namespace {

class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    device = make_cuda_device(0, std::nullopt, 1);
    ops = device->make_ops({.precision = precision_named("fp32")});
    use(Dtype::f32);
  }

  void use(Dtype dtype) {
    const auto matrix = [&] {
      return device->allocate({1024, 1024}, dtype, MemoryKind::workspace);
    };
    a = matrix();
    b = matrix();
    ops->fill(a, 1);
    multiply();  // so that the library loads its kernels
    device->synchronize();
  }

  void check_eager_kernels();
  void multiply() {
    const Scope block(device->scopes(), "block 3");
    ops->matmul(Matrix(b), Matrix(a), Matrix(a));
  }
  std::unique_ptr<Graph> captured() {
    std::unique_ptr<Graph> graph = device->capture(device->compute_stream(), [&] {
      multiply();
      {
        const Scope zero(device->scopes(), "zero");
        device->zero(b);  // a memset, replaced by a kernel
      }
      const Scope scope(device->scopes(), "timing");
      end = device->compute_stream().record();
    });
    graph->instantiate();
    return graph;
  }
  // The number of kernels of each scope.
  [[nodiscard]] std::map<std::string, int> kernels(const Trace& trace) const {
    std::map<std::string, int> counts;
    for (const Activity& activity : trace.activities) {
      if (activity.kind != ActivityKind::kernel) continue;
      const bool is_known = activity.span >= 0;
      const auto span = static_cast<std::size_t>(activity.span);
      ++counts[is_known ? device->scopes().paths()[trace.spans[span].scope].text : "none"];
    }
    return counts;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  Array a;
  Array b;
  EventPtr end;
};

// cuBLASLt launches some kernels through the driver, including those for bf16.
TEST_F(ProfilerTest, EagerKernelsBelongToTheirScopes) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    SCOPED_TRACE(name_of(dtype));
    use(dtype);
    check_eager_kernels();
  }
}

void ProfilerTest::check_eager_kernels() {
  const std::unique_ptr<Profiler> profiler = device->start_profiler();
  if (!profiler->sees_into_graphs()) GTEST_SKIP() << "no CUPTI here";
  for (int i = 0; i < 3; ++i) multiply();
  const Trace trace = profiler->finish();
  EXPECT_EQ(trace.lost, 0);
  const std::map<std::string, int> counts = kernels(trace);
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_EQ(counts.begin()->first, "block 3/matmul");
  EXPECT_EQ(counts.begin()->second % 3, 0);
  for (const Activity& activity : trace.activities) {
    EXPECT_GE(activity.begin, trace.spans.front().begin);
    EXPECT_GE(activity.end, activity.begin);
  }
}

// Every session sees the graphs captured within it, also after an earlier session and after a graph
// captured outside of any session.
TEST_F(ProfilerTest, KernelsOfAGraphBelongToTheScopesOfTheirCapture) {
  for (int session = 0; session < 3; ++session) {
    const std::unique_ptr<Graph> unprofiled = captured();
    unprofiled->launch();
    device->synchronize();
    const std::unique_ptr<Profiler> profiler = device->start_profiler();
    if (!profiler->sees_into_graphs()) GTEST_SKIP() << "no CUPTI here";
    const std::unique_ptr<Graph> graph = captured();
    constexpr int launches = 4;
    for (int i = 0; i < launches; ++i) graph->launch();
    const Trace trace = profiler->finish();
    EXPECT_EQ(trace.lost, 0);
    std::map<std::string, int> counts = kernels(trace);
    EXPECT_EQ(counts["block 3/matmul"] % launches, 0) << "session " << session;
    EXPECT_GE(counts["block 3/matmul"], launches) << "session " << session;
    EXPECT_EQ(counts["timing"], launches) << "session " << session;
    EXPECT_EQ(counts["zero"], launches) << "session " << session;
    EXPECT_EQ(counts.count("none"), 0U) << "session " << session;
    const auto calls = std::count_if(
        trace.activities.begin(), trace.activities.end(), [&](const Activity& activity) {
          return activity.kind == ActivityKind::launch &&
                 trace.names[static_cast<std::size_t>(activity.name)] == "cudaGraphLaunch";
        });
    EXPECT_EQ(calls, launches) << "session " << session;
  }
}

}  // namespace
}  // namespace paceline
