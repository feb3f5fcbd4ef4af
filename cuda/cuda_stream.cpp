#include "cuda/cuda_stream.h"

#include <exception>
#include <mutex>
#include <utility>

#include "cuda/check.h"

namespace paceline {

CudaEvent::CudaEvent() { CUDA_CHECK(cudaEventCreate(&event_)); }
CudaEvent::~CudaEvent() { cudaEventDestroy(event_); }

void CudaEvent::synchronize() { CUDA_CHECK(cudaEventSynchronize(event_)); }

double CudaEvent::seconds_since(const Event& earlier) const {
  float milliseconds = 0;
  CUDA_CHECK(
      cudaEventElapsedTime(&milliseconds, dynamic_cast<const CudaEvent&>(earlier).event_, event_));
  constexpr double per_second = 1e3;
  return milliseconds / per_second;
}

struct CudaStream::HostErrors {
  std::mutex mutex;
  std::exception_ptr first;
};

CudaStream::CudaStream() : errors_(std::make_shared<HostErrors>()) {
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

EventPtr CudaStream::record() {
  auto event = std::make_shared<CudaEvent>();
  CUDA_CHECK(cudaEventRecord(event->get(), stream_));
  return event;
}

void CudaStream::wait(const EventPtr& event) {
  CUDA_CHECK(cudaStreamWaitEvent(stream_, dynamic_cast<const CudaEvent&>(*event).get()));
}

void CudaStream::enqueue(std::function<void()> host_function) {
  struct Call {
    std::function<void()> work;
    std::shared_ptr<HostErrors> errors;
  };
  auto call = std::make_unique<Call>(Call{std::move(host_function), errors_});
  const auto run = [](void* data) {
    const std::unique_ptr<Call> mine(static_cast<Call*>(data));
    try {
      mine->work();
    } catch (...) {
      const std::lock_guard lock(mine->errors->mutex);
      if (!mine->errors->first) mine->errors->first = std::current_exception();
    }
  };
  CUDA_CHECK(cudaLaunchHostFunc(stream_, run, call.get()));
  (void)call.release();  // `run` owns it now
}

void CudaStream::synchronize() {
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  const std::lock_guard lock(errors_->mutex);
  if (errors_->first) std::rethrow_exception(std::exchange(errors_->first, nullptr));
}

CudaGraph::CudaGraph(cudaStream_t stream, const std::function<void()>& work) : stream_(stream) {
  // Other threads (a watchdog) may go on calling CUDA meanwhile.
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  const cudaError_t result = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  CUDA_CHECK(result);
}

CudaGraph::~CudaGraph() { cudaGraphExecDestroy(executable_); }

void CudaGraph::launch() { CUDA_CHECK(cudaGraphLaunch(executable_, stream_)); }

}  // namespace paceline
