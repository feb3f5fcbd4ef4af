#pragma once
// RehearsalCommunicator: the communicator of a case's rehearsed first step. Until connect(),
// collectives are recorded instead of enqueued, so that a rank that runs out of memory in the step
// leaves no other rank waiting.

#include <algorithm>
#include <functional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/communicator.h"

namespace paceline {

class RehearsalCommunicator final : public Communicator {
 public:
  // scopes: the device's.
  RehearsalCommunicator(Communicator& real, ScopeStack& scopes) : real_(real), scopes_(scopes) {}

  // Collective: runs every recorded collective once and waits, because NCCL connects ranks and
  // allocates memory at the first use of an operation. Later collectives are enqueued.
  void connect() {
    for (const auto& call : recorded_) call();
    real_.stream().synchronize();
    recorded_.clear();
    keys_.clear();
    connected_ = true;
  }

  [[nodiscard]] int rank() const override { return real_.rank(); }
  [[nodiscard]] int size() const override { return real_.size(); }
  [[nodiscard]] BackendKind backend() const override { return real_.backend(); }
  [[nodiscard]] Stream& stream() override { return real_.stream(); }
  void require_free_memory() override { real_.require_free_memory(); }
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
    run_or_record("all_reduce", recv, send, [=, this] { real_.all_reduce(recv, send, op); });
  }
  void reduce_scatter(Tensor recv, Tensor send, ReduceOp op) override {
    run_or_record("reduce_scatter", recv, send,
                  [=, this] { real_.reduce_scatter(recv, send, op); });
  }
  void all_gather(Tensor recv, Tensor send) override {
    run_or_record("all_gather", recv, send, [=, this] { real_.all_gather(recv, send); });
  }
  void broadcast(Tensor data, int root) override {
    run_or_record("broadcast", data, data, [=, this] { real_.broadcast(data, root); });
  }
  void reduce(Tensor recv, Tensor send, ReduceOp op, int root) override {
    run_or_record("reduce", recv, send, [=, this] { real_.reduce(recv, send, op, root); });
  }
  void all_to_all(Tensor recv, Tensor send) override {
    run_or_record("all_to_all", recv, send, [=, this] { real_.all_to_all(recv, send); });
  }
  void send_recv(Tensor recv, int source, Tensor send, int destination) override {
    run_or_record("send_recv", recv, send,
                  [=, this] { real_.send_recv(recv, source, send, destination); });
  }

 private:
  // Identifies a collective: name, recv and send addresses, elements.
  using Key = std::tuple<std::string_view, const void*, const void*, std::int64_t>;

  void run_or_record(std::string_view op, const Tensor& recv, const Tensor& send,
                     const std::function<void()>& call) {
    if (connected_) {
      const Scope scope(scopes_, op, work_of_collective(send, real_.stream()));
      call();
      return;
    }
    const Key key{op, recv.data, send.data, recv.numel()};
    if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) return;
    keys_.push_back(key);
    recorded_.push_back(call);
  }

  Communicator& real_;
  ScopeStack& scopes_;
  bool connected_ = false;
  std::vector<Key> keys_;
  std::vector<std::function<void()>> recorded_;  // by key
};

}  // namespace paceline
