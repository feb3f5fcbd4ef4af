#pragma once
// RehearsalCommunicator: a communicator for a case's first steps. Until connect() its collectives
// enqueue nothing, so that a rank without the memory for a step leaves no other rank waiting; it
// notes them instead.

#include <functional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/communicator.h"

namespace paceline {

class RehearsalCommunicator final : public Communicator {
 public:
  explicit RehearsalCommunicator(Communicator& real) : real_(real) {}

  // Collective: runs every collective that was noted, once, and waits: NCCL connects ranks and
  // allocates at an operation's first use. From now on collectives are enqueued.
  void connect();

  [[nodiscard]] int rank() const override { return real_.rank(); }
  [[nodiscard]] int size() const override { return real_.size(); }
  [[nodiscard]] BackendKind backend() const override { return real_.backend(); }
  [[nodiscard]] Stream& stream() override { return real_.stream(); }
  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override {
    return real_.allocate(shape, dtype, kind);
  }
  [[nodiscard]] std::shared_ptr<void> register_memory(const Tensor& memory) override {
    return real_.register_memory(memory);
  }

  void all_reduce(Tensor recv, Tensor send, ReduceOp op) override;
  void reduce_scatter(Tensor recv, Tensor send, ReduceOp op) override;
  void all_gather(Tensor recv, Tensor send) override;
  void broadcast(Tensor data, int root) override;
  void reduce(Tensor recv, Tensor send, ReduceOp op, int root) override;
  void all_to_all(Tensor recv, Tensor send) override;
  void send_recv(Tensor recv, int source, Tensor send, int destination) override;

 private:
  // What makes a collective another one: its name, where it reads and writes, and how much.
  using Key = std::tuple<std::string_view, const void*, const void*, std::int64_t>;

  void run_or_note(std::string_view op, const Tensor& recv, const Tensor& send,
                   const std::function<void()>& call);

  Communicator& real_;
  bool connected_ = false;
  std::vector<Key> keys_;
  std::vector<std::function<void()>> noted_;  // a call for each key
};

}  // namespace paceline
