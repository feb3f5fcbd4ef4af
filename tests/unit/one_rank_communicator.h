#pragma once
// A Communicator of one rank for tests to derive from: all_reduce copies; the others do nothing.

#include <cstring>
#include <memory>
#include <string_view>

#include "core/communicator.h"

namespace paceline {

class OneRankCommunicator : public Communicator {
 public:
  explicit OneRankCommunicator(Device& device) : device_(device) {}

  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] BackendKind backend() const override { return BackendKind::mpi; }
  [[nodiscard]] Stream& stream() override { return device_.communication_stream(); }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate(Stream& /*stream*/) override {
    return nullptr;
  }
  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override {
    return device_.allocate(shape, dtype, kind);
  }
  [[nodiscard]] std::shared_ptr<void> register_memory(const Tensor& /*memory*/) override {
    return nullptr;
  }
  void all_reduce(Tensor recv, Tensor send, ReduceOp /*op*/) override {
    std::memcpy(recv.data, send.data, recv.bytes());
  }
  void reduce_scatter(Tensor, Tensor, ReduceOp) override {}
  void all_gather(Tensor, Tensor) override {}
  void broadcast(Tensor, int) override {}
  void reduce(Tensor, Tensor, ReduceOp, int) override {}
  void all_to_all(Tensor, Tensor) override {}
  void send_recv(Tensor, int, Tensor, int) override {}

 protected:
  Device& device_;
};

}  // namespace paceline
