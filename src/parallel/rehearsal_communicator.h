#pragma once
// RehearsalCommunicator: a communicator for a case's first steps. Until connect() its collectives
// enqueue nothing, so that a rank without the memory for a step leaves no other rank waiting; it
// notes them instead.

#include <algorithm>
#include <functional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/communicator.h"

namespace paceline {

class RehearsalCommunicator final : public Communicator {
 public:
  // scopes: of the device that calls it.
  RehearsalCommunicator(Communicator& real, ScopeStack& scopes) : real_(real), scopes_(scopes) {}

  // Collective: runs every collective that was noted, once, and waits: NCCL connects ranks and
  // allocates at an operation's first use. From now on collectives are enqueued.
  void connect() {
    for (const auto& call : noted_) call();
    real_.stream().synchronize();
    noted_.clear();
    keys_.clear();
    connected_ = true;
  }

  [[nodiscard]] int rank() const override { return real_.rank(); }
  [[nodiscard]] int size() const override { return real_.size(); }
  [[nodiscard]] BackendKind backend() const override { return real_.backend(); }
  [[nodiscard]] Stream& stream() override { return real_.stream(); }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate(Stream& stream) override {
    return real_.duplicate(stream);
  }
  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override {
    return real_.allocate(shape, dtype, kind);
  }
  [[nodiscard]] std::shared_ptr<void> register_memory(const Tensor& memory) override {
    return real_.register_memory(memory);
  }

  void all_reduce(Tensor recv, Tensor send, ReduceOp op) override {
    run_or_note("all_reduce", recv, send, [=, this] { real_.all_reduce(recv, send, op); });
  }
  void reduce_scatter(Tensor recv, Tensor send, ReduceOp op) override {
    run_or_note("reduce_scatter", recv, send, [=, this] { real_.reduce_scatter(recv, send, op); });
  }
  void all_gather(Tensor recv, Tensor send) override {
    run_or_note("all_gather", recv, send, [=, this] { real_.all_gather(recv, send); });
  }
  void broadcast(Tensor data, int root) override {
    run_or_note("broadcast", data, data, [=, this] { real_.broadcast(data, root); });
  }
  void reduce(Tensor recv, Tensor send, ReduceOp op, int root) override {
    run_or_note("reduce", recv, send, [=, this] { real_.reduce(recv, send, op, root); });
  }
  void all_to_all(Tensor recv, Tensor send) override {
    run_or_note("all_to_all", recv, send, [=, this] { real_.all_to_all(recv, send); });
  }
  void send_recv(Tensor recv, int source, Tensor send, int destination) override {
    run_or_note("send_recv", recv, send,
                [=, this] { real_.send_recv(recv, source, send, destination); });
  }

 private:
  // What makes a collective another one: its name, where it reads and writes, and how much.
  using Key = std::tuple<std::string_view, const void*, const void*, std::int64_t>;

  void run_or_note(std::string_view op, const Tensor& recv, const Tensor& send,
                   const std::function<void()>& call) {
    if (connected_) {
      const Scope scope(scopes_, op, work_of_collective(send, real_.stream()));
      call();
      return;
    }
    const Key key{op, recv.data, send.data, recv.numel()};
    if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) return;
    keys_.push_back(key);
    noted_.push_back(call);
  }

  Communicator& real_;
  ScopeStack& scopes_;
  bool connected_ = false;
  std::vector<Key> keys_;
  std::vector<std::function<void()>> noted_;  // a call for each key
};

}  // namespace paceline
