#pragma once
#include <cuda_runtime.h>

#include <functional>
#include <memory>

#include "core/device.h"
#include "cuda/runtime/graph_kernels.h"

namespace paceline {

class CudaEvent final : public Event {
 public:
  // Marks the end of all work enqueued on the stream so far. If it is recorded during a capture,
  // other work of that capture may wait for it, each launch of the graph writes its time, and the
  // host has to wait for the end of the graph instead.
  CudaEvent(cudaStream_t stream, TimeSlots& times);
  ~CudaEvent() override;

  // Later work of the stream waits for this event.
  void hold(cudaStream_t stream) const;

  void synchronize() override;
  [[nodiscard]] double seconds_since(const Event& earlier) const override;

 private:
  cudaEvent_t event_ = nullptr;
  TimeSlot time_;  // of an event in a graph
};

class CudaStream final : public Stream {
 public:
  // Kernels of an urgent stream start before ready kernels of other streams.
  explicit CudaStream(bool urgent = true);
  ~CudaStream() override;

  [[nodiscard]] EventPtr record() override;
  void wait(const EventPtr& event) override;
  void follow(Stream& other) override;
  void enqueue(std::function<void()> host_function) override;
  void synchronize() override;

  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  struct HostErrors;  // exceptions from host functions, rethrown by synchronize()

  cudaStream_t stream_ = nullptr;
  TimeSlots times_;
  std::shared_ptr<HostErrors> errors_;
};

// A captured graph, instantiated by its first launch() at the latest.
class CudaGraph final : public Graph {
 public:
  CudaGraph(cudaStream_t stream, const std::function<void()>& work);
  ~CudaGraph() override;

  void instantiate() override;
  void launch() override;
  // Without nodes that only write the time.
  [[nodiscard]] GraphNodes nodes() const override;

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  int memsets_ = 0;  // memset nodes that were replaced by kernels
};

}  // namespace paceline
