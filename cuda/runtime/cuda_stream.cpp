#include "cuda/runtime/cuda_stream.h"

#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/runtime/check.h"

namespace paceline {

namespace {

// The graph being captured from the stream, or null.
cudaGraph_t graph_under_capture(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr));
  return status == cudaStreamCaptureStatusActive ? graph : nullptr;
}

}  // namespace

CudaEvent::CudaEvent(cudaStream_t stream, TimeSlots& times) {
  CUDA_CHECK(cudaEventCreate(&event_));
  if (graph_under_capture(stream) != nullptr) {
    time_ = times.next();
    write_time(time_, stream);
  }
  CUDA_CHECK(cudaEventRecord(event_, stream));
}

CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::hold(cudaStream_t stream) const { CUDA_CHECK(cudaStreamWaitEvent(stream, event_)); }

void CudaEvent::synchronize() { CUDA_CHECK(cudaEventSynchronize(event_)); }

double CudaEvent::seconds_since(const Event& earlier) const {
  const auto& before = dynamic_cast<const CudaEvent&>(earlier);
  if (time_ != nullptr && before.time_ != nullptr) {
    constexpr double nanoseconds = 1e-9;
    return static_cast<double>(static_cast<std::int64_t>(*time_ - *before.time_)) * nanoseconds;
  }
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, before.event_, event_));
  constexpr double per_second = 1e3;
  return milliseconds / per_second;
}

struct CudaStream::HostErrors {
  std::mutex mutex;
  std::exception_ptr first;
};

CudaStream::CudaStream(bool urgent) : errors_(std::make_shared<HostErrors>()) {
  int least = 0;
  int greatest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA_CHECK(
      cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, urgent ? greatest : least));
}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

EventPtr CudaStream::record() { return std::make_shared<CudaEvent>(stream_, times_); }

void CudaStream::wait(const EventPtr& event) {
  dynamic_cast<const CudaEvent&>(*event).hold(stream_);
}

void CudaStream::follow(Stream& other) {
  cudaEvent_t now = nullptr;
  CUDA_CHECK(cudaEventCreateWithFlags(&now, cudaEventDisableTiming));
  cudaError_t result = cudaEventRecord(now, dynamic_cast<CudaStream&>(other).stream_);
  if (result == cudaSuccess) result = cudaStreamWaitEvent(stream_, now);
  cudaEventDestroy(now);  // waits that are already enqueued remain valid
  CUDA_CHECK(result);
}

void CudaStream::enqueue(std::function<void()> host_function) {
  struct Call {
    std::function<void()> work;
    std::shared_ptr<HostErrors> errors;

    static void run(void* data) {
      auto& call = *static_cast<Call*>(data);
      try {
        call.work();
      } catch (...) {
        const std::lock_guard lock(call.errors->mutex);
        if (!call.errors->first) call.errors->first = std::current_exception();
      }
    }
    static void destroy(void* data) { delete static_cast<Call*>(data); }
    static void run_once(void* data) {
      run(data);
      destroy(data);
    }
  };
  auto call = std::make_unique<Call>(Call{std::move(host_function), errors_});
  const cudaGraph_t graph = graph_under_capture(stream_);
  CUDA_CHECK(
      cudaLaunchHostFunc(stream_, graph == nullptr ? Call::run_once : Call::run, call.get()));
  void* owned = call.release();
  if (graph == nullptr) return;
  // Owned by the graph and by executable graphs instantiated from it.
  cudaUserObject_t object = nullptr;
  CUDA_CHECK(
      cudaUserObjectCreate(&object, owned, Call::destroy, 1, cudaUserObjectNoDestructorSync));
  CUDA_CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
}

void CudaStream::synchronize() {
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  const std::lock_guard lock(errors_->mutex);
  if (errors_->first) std::rethrow_exception(std::exchange(errors_->first, nullptr));
}

CudaGraph::CudaGraph(cudaStream_t stream, const std::function<void()>& work) : stream_(stream) {
  // Thread-local: other threads, such as the watchdog, may call CUDA during the capture.
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph_));
  memsets_ = replace_memsets(graph_, stream);
}

CudaGraph::~CudaGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  cudaGraphDestroy(graph_);
}

void CudaGraph::instantiate() {
  if (executable_ != nullptr) return;
  // Kernels keep the priority of the stream from which they were captured.
  CUDA_CHECK(cudaGraphInstantiate(&executable_, graph_, cudaGraphInstantiateFlagUseNodePriority));
}

void CudaGraph::launch() {
  instantiate();
  CUDA_CHECK(cudaGraphLaunch(executable_, stream_));
}

GraphNodes CudaGraph::nodes() const {
  std::size_t count = 0;
  CUDA_CHECK(cudaGraphGetNodes(graph_, nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  CUDA_CHECK(cudaGraphGetNodes(graph_, nodes.data(), &count));
  GraphNodes result{.all = static_cast<std::int64_t>(count), .kernels = -memsets_};
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    CUDA_CHECK(cudaGraphNodeGetType(node, &type));
    if (type != cudaGraphNodeTypeKernel) continue;
    writes_time(node) ? --result.all : ++result.kernels;
  }
  return result;
}

}  // namespace paceline
