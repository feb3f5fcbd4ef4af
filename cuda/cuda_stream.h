#pragma once
#include <cuda_runtime.h>

#include <functional>
#include <memory>

#include "core/device.h"

namespace paceline {

class CudaEvent final : public Event {
 public:
  CudaEvent();
  ~CudaEvent() override;

  void synchronize() override;
  [[nodiscard]] double seconds_since(const Event& earlier) const override;
  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public Stream {
 public:
  CudaStream();
  ~CudaStream() override;

  [[nodiscard]] EventPtr record() override;
  void wait(const EventPtr& event) override;
  void enqueue(std::function<void()> host_function) override;
  void synchronize() override;

  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  struct HostErrors;  // what host functions threw, until synchronize()

  cudaStream_t stream_ = nullptr;
  std::shared_ptr<HostErrors> errors_;
};

// A captured graph, instantiated once.
class CudaGraph final : public Graph {
 public:
  CudaGraph(cudaStream_t stream, const std::function<void()>& work);
  ~CudaGraph() override;

  void launch() override;

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace paceline
