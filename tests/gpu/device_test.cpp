// CudaDevice: memory, streams, graphs.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/ops.h"
#include "core/profiler.h"
#include "cuda/cuda_backend.h"

namespace paceline {
namespace {

constexpr auto activation = MemoryKind::activation;

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    device = make_cuda_device(0, std::size_t{64} << 20U, 1);
  }
  float first(const Tensor& x) const {
    std::vector<float> host(static_cast<std::size_t>(x.numel()));
    device->to_host(host.data(), x);
    return host.front();
  }

  std::unique_ptr<Device> device;
};

TEST_F(CudaDeviceTest, BlocksAreAlignedCountedAndReused) {
  const void* address = nullptr;
  {
    const Array a = device->allocate({100}, Dtype::f32, activation);
    const Array b = device->allocate({1000}, Dtype::f32, activation);
    address = a.tensor().data;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.tensor().data) % 256, 0U);
    EXPECT_EQ(device->ledger().bytes(activation), 512U + 4096U);
  }
  EXPECT_EQ(device->ledger().bytes(), 0U);
  const Array again = device->allocate({100}, Dtype::f32, activation);
  EXPECT_EQ(again.tensor().data, address);
}

TEST_F(CudaDeviceTest, PastTheLimitIsOutOfMemory) {
  const Array most = device->allocate({std::int64_t{15} << 20U}, Dtype::f32, activation);
  EXPECT_THROW((void)device->allocate({std::int64_t{2} << 20U}, Dtype::f32, activation),
               OutOfMemory);
}

TEST_F(CudaDeviceTest, UnusedSegmentsMakeRoom) {
  { const Array gone = device->allocate({std::int64_t{10} << 20U}, Dtype::f32, activation); }
  const Array larger = device->allocate({std::int64_t{12} << 20U}, Dtype::f32, activation);
  EXPECT_EQ(device->reserved_bytes(), std::size_t{48} << 20U);
}

TEST_F(CudaDeviceTest, SettlesWhenNoSegmentComesOrGoes) {
  const auto step = [&] {
    const Array a = device->allocate({std::int64_t{6} << 20U}, Dtype::f32, activation);
    const Array b = device->allocate({1000}, Dtype::f32, activation);
  };
  step();
  EXPECT_FALSE(device->reserved_unchanged());
  step();
  EXPECT_TRUE(device->reserved_unchanged());
}

TEST_F(CudaDeviceTest, FrozenServesOnlyWhatWasReserved) {
  { const Array a = device->allocate({std::int64_t{1} << 20U}, Dtype::f32, activation); }
  device->freeze();
  { const Array a = device->allocate({std::int64_t{1} << 20U}, Dtype::f32, activation); }
  EXPECT_THROW((void)device->allocate({std::int64_t{8} << 20U}, Dtype::f32, activation),
               InternalError);
  device->trim();
  EXPECT_EQ(device->reserved_bytes(), 0U);
  EXPECT_NO_THROW((void)device->allocate({std::int64_t{8} << 20U}, Dtype::f32, activation));
}

TEST_F(CudaDeviceTest, StreamsWaitForEvents) {
  const auto ops = device->make_ops({.precision = precision_named("fp32")});
  const Array x = device->allocate({1 << 20U}, Dtype::f32, activation);
  for (int i = 1; i <= 50; ++i) ops->fill(x, i);
  const EventPtr filled = device->compute_stream().record();
  bool ran = false;
  device->communication_stream().wait(filled);
  device->communication_stream().enqueue([&] { ran = true; });
  const EventPtr told = device->communication_stream().record();
  device->communication_stream().synchronize();
  EXPECT_TRUE(ran);
  EXPECT_GE(told->seconds_since(*filled), 0);
  EXPECT_EQ(first(x), 50);
}

TEST_F(CudaDeviceTest, HostFunctionsErrorsComeOutAtSynchronize) {
  device->communication_stream().enqueue([] { throw std::runtime_error("lost"); });
  EXPECT_THROW(device->communication_stream().synchronize(), std::runtime_error);
  EXPECT_NO_THROW(device->communication_stream().synchronize());
}

TEST_F(CudaDeviceTest, AGraphReplaysWhatItCaptured) {
  const auto ops = device->make_ops({.precision = precision_named("fp32")});
  const Array x = device->allocate({1024}, Dtype::f32, activation);
  ops->fill(x, 1);
  device->freeze();
  const std::unique_ptr<Graph> graph = device->capture(device->compute_stream(), [&] {
    ops->scale(x, 3);
    ops->add(x, x, x);
  });
  EXPECT_EQ(first(x), 1);  // capture runs nothing
  graph->launch();
  EXPECT_EQ(first(x), 6);
  graph->launch();
  EXPECT_EQ(first(x), 36);
}

// A memset node costs 2 us per launch, so a kernel of ours clears whole words.
TEST_F(CudaDeviceTest, AGraphClearsMemoryByKernels) {
  const auto ops = device->make_ops({.precision = precision_named("fp32")});
  for (const std::int64_t n : {1, 3, 1024, 4096 * 4 + 7, 100'003}) {
    const Array x = device->allocate({n}, Dtype::f32, activation);
    const std::unique_ptr<Graph> graph = device->capture(device->compute_stream(), [&] {
      ops->fill(x, 1);
      device->zero(x.tensor().slice(0, {n - n / 3}));
      ops->add(x, x, x);
    });
    EXPECT_EQ(graph->nodes().all, 3);
    EXPECT_EQ(graph->nodes().kernels, 2);
    graph->launch();
    std::vector<float> want(static_cast<std::size_t>(n), 2);
    std::fill_n(want.begin(), n - n / 3, 0.0F);
    std::vector<float> got(want.size());
    device->to_host(got.data(), x);
    EXPECT_EQ(got, want);
  }
}

// As when a step is captured again. The times of events are in memory that is freed with the
// events.
TEST_F(CudaDeviceTest, ACaptureMayEndTheEventsOfTheOneBefore) {
  std::vector<EventPtr> events;
  for (int capture = 0; capture < 3; ++capture) {
    const std::unique_ptr<Graph> graph = device->capture(device->compute_stream(), [&] {
      events.clear();
      for (int i = 0; i < 2000; ++i) events.push_back(device->compute_stream().record());
    });
    graph->launch();
    device->synchronize();
    EXPECT_GT(events.back()->seconds_since(*events.front()), 0);
  }
}

TEST_F(CudaDeviceTest, EventsOfAGraphAreTimedAnewByEachLaunch) {
  const auto ops = device->make_ops({.precision = precision_named("fp32")});
  const Array x = device->allocate({1 << 20U}, Dtype::f32, activation);
  EventPtr begin;
  EventPtr middle;
  EventPtr end;
  const std::unique_ptr<Graph> graph = device->capture(device->compute_stream(), [&] {
    begin = device->compute_stream().record();
    for (int i = 0; i < 50; ++i) ops->fill(x, 1);
    middle = device->compute_stream().record();
    device->communication_stream().wait(middle);
    device->communication_stream().enqueue([] {});
    end = device->communication_stream().record();
    device->compute_stream().follow(device->communication_stream());
  });
  EXPECT_EQ(graph->nodes().kernels, 50);
  std::vector<double> seconds;
  for (int launch = 0; launch < 3; ++launch) {
    const auto began = std::chrono::steady_clock::now();
    graph->launch();
    device->synchronize();
    const std::chrono::duration<double> host = std::chrono::steady_clock::now() - began;
    EXPECT_GT(middle->seconds_since(*begin), 0);
    EXPECT_GE(end->seconds_since(*middle), 0);
    EXPECT_LT(end->seconds_since(*begin), host.count());
    seconds.push_back(middle->seconds_since(*begin));
  }
  EXPECT_FALSE(seconds[0] == seconds[1] && seconds[1] == seconds[2]);
}

// ---- CUPTI: kernels belong to the scopes that launched them, also in graphs ----

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
