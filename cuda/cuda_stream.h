#pragma once
#include <cuda_runtime.h>

#include <functional>
#include <memory>

#include "core/device.h"
#include "cuda/graph_kernels.h"

namespace paceline {

class CudaEvent final : public Event {
 public:
  // After all work so far of the stream. Recorded in a capture, other work of that capture may wait
  // for it, and each launch of the graph writes its time: the host waits for the graph's end then.
  CudaEvent(cudaStream_t stream, TimeSlots& times);
  ~CudaEvent() override;

  // Later work of the stream starts after it.
  void hold(cudaStream_t stream) const;

  void synchronize() override;
  [[nodiscard]] double seconds_since(const Event& earlier) const override;

 private:
  cudaEvent_t event_ = nullptr;
  TimeSlot time_;  // of an event of a graph
};

class CudaStream final : public Stream {
 public:
  // Of two streams' kernels that could start, those of the urgent one do.
  explicit CudaStream(bool urgent = true);
  ~CudaStream() override;

  [[nodiscard]] EventPtr record() override;
  void wait(const EventPtr& event) override;
  void follow(Stream& other) override;
  void enqueue(std::function<void()> host_function) override;
  void synchronize() override;

  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  struct HostErrors;  // what host functions threw, until synchronize()

  cudaStream_t stream_ = nullptr;
  TimeSlots times_;
  std::shared_ptr<HostErrors> errors_;
};

// A captured graph, instantiated by upload() or the first launch().
class CudaGraph final : public Graph {
 public:
  CudaGraph(cudaStream_t stream, const std::function<void()>& work);
  ~CudaGraph() override;

  void upload() override;
  void launch() override;
  // Without those that only write the time.
  [[nodiscard]] GraphNodes nodes() const override;

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  int memsets_ = 0;  // of its nodes, as kernels
};

}  // namespace paceline
