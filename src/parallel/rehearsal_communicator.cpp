#include "parallel/rehearsal_communicator.h"

#include <algorithm>

namespace paceline {

void RehearsalCommunicator::connect() {
  for (const auto& call : noted_) call();
  real_.stream().synchronize();
  noted_.clear();
  keys_.clear();
  connected_ = true;
}

void RehearsalCommunicator::run_or_note(std::string_view op, const Tensor& recv, const Tensor& send,
                                        const std::function<void()>& call) {
  if (connected_) {
    call();
    return;
  }
  const Key key{op, recv.data, send.data, recv.numel()};
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) return;
  keys_.push_back(key);
  noted_.push_back(call);
}

void RehearsalCommunicator::all_reduce(Tensor recv, Tensor send, ReduceOp op) {
  run_or_note("all_reduce", recv, send, [=, this] { real_.all_reduce(recv, send, op); });
}

void RehearsalCommunicator::reduce_scatter(Tensor recv, Tensor send, ReduceOp op) {
  run_or_note("reduce_scatter", recv, send, [=, this] { real_.reduce_scatter(recv, send, op); });
}

void RehearsalCommunicator::all_gather(Tensor recv, Tensor send) {
  run_or_note("all_gather", recv, send, [=, this] { real_.all_gather(recv, send); });
}

void RehearsalCommunicator::broadcast(Tensor data, int root) {
  run_or_note("broadcast", data, data, [=, this] { real_.broadcast(data, root); });
}

void RehearsalCommunicator::reduce(Tensor recv, Tensor send, ReduceOp op, int root) {
  run_or_note("reduce", recv, send, [=, this] { real_.reduce(recv, send, op, root); });
}

void RehearsalCommunicator::all_to_all(Tensor recv, Tensor send) {
  run_or_note("all_to_all", recv, send, [=, this] { real_.all_to_all(recv, send); });
}

void RehearsalCommunicator::send_recv(Tensor recv, int source, Tensor send, int destination) {
  run_or_note("send_recv", recv, send,
              [=, this] { real_.send_recv(recv, source, send, destination); });
}

}  // namespace paceline
