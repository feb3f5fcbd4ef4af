// Communicators and attention that return wrong results ("lie"), for tests that runs detect them.
// Linked into build/paceline_lying only. The linker's --wrap=X redirects calls of X to __wrap_X,
// which calls X itself as __real_X.
//
// PACELINE_LIE lists lies, five words each: what, operation, elements, first, last. Of the calls of
// the operation whose result has that number of elements (0: any number), counted from 1, those
// from first to last lie:
//   wrong  adds 1 to the result's first element (attention, attention_backward)
//   last   sums the result's last element over ranks once more
//   twice  reduces the result once more
//   root   every rank contributes what rank 0 does
//   skip   does nothing
//   flip   flips the lowest bit of the first element on rank 1
//   late   takes 12 s longer (attention, attention_backward)
//   throw  throws an exception on rank 1
//   memory throws OutOfMemory instead (also require_free_memory, duplicate)
// wrong and late are for attention, the others for collectives; twice and root only for all_reduce
// and reduce_scatter. Of the operations library and nccl_version
//   other  is the name of another library, or another version
//   print  prints a line on standard output (library)

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/communicator.h"
#include "core/ops.h"
#include "cuda/cuda_backend.h"

namespace paceline {

namespace {

struct Lie {
  std::string what;
  std::string operation;
  std::int64_t elements = 0;
  int first = 0;
  int last = 0;
  int calls = 0;  // so far
};

std::vector<Lie> read_lies() {
  const char* text = std::getenv("PACELINE_LIE");
  std::istringstream in(text == nullptr ? "" : text);
  std::vector<Lie> lies;
  for (Lie x; in >> x.what >> x.operation >> x.elements >> x.first >> x.last;) lies.push_back(x);
  return lies;
}

// The lie of this call; empty: none. Counts the call.
std::string lie_of(std::string_view operation, const Tensor& result) {
  static std::vector<Lie> lies = read_lies();
  std::string what;
  for (Lie& lie : lies) {
    if (lie.operation != operation) continue;
    if (lie.elements != 0 && lie.elements != result.numel()) continue;
    ++lie.calls;
    if (lie.first <= lie.calls && lie.calls <= lie.last) what = lie.what;
  }
  return what;
}

Tensor element(const Tensor& x, std::int64_t i) { return x.reshape({x.numel()}).slice(i, {1}); }

class LyingCommunicator final : public Communicator {
 public:
  LyingCommunicator(std::unique_ptr<Communicator> real, Device& device)
      : real_(std::move(real)), device_(device) {}

  [[nodiscard]] int rank() const override { return real_->rank(); }
  [[nodiscard]] int size() const override { return real_->size(); }
  [[nodiscard]] BackendKind backend() const override { return real_->backend(); }
  [[nodiscard]] Stream& stream() override { return real_->stream(); }
  void require_free_memory() override {
    lack_memory(lie_of("require_free_memory", {}));
    real_->require_free_memory();
  }
  [[nodiscard]] std::unique_ptr<Communicator> duplicate(Stream& stream) override {
    lack_memory(lie_of("duplicate", {}));
    return std::make_unique<LyingCommunicator>(real_->duplicate(stream), device_);
  }
  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override {
    return real_->allocate(shape, dtype, kind);
  }
  [[nodiscard]] std::shared_ptr<void> register_memory(const Tensor& memory) override {
    return real_->register_memory(memory);
  }

  void all_reduce(Tensor recv, Tensor send, ReduceOp op) override {
    reduction("all_reduce", recv, send,
              [=, this](const Tensor& from) { real_->all_reduce(recv, from, op); });
  }
  void reduce_scatter(Tensor recv, Tensor send, ReduceOp op) override {
    reduction("reduce_scatter", recv, send,
              [=, this](const Tensor& /*from*/) { real_->reduce_scatter(recv, send, op); });
  }
  void reduce(Tensor recv, Tensor send, ReduceOp op, int root) override {
    collective("reduce", recv, [=, this] { real_->reduce(recv, send, op, root); });
  }
  void all_gather(Tensor recv, Tensor send) override {
    collective("all_gather", recv, [=, this] { real_->all_gather(recv, send); });
  }
  void broadcast(Tensor data, int root) override {
    collective("broadcast", data, [=, this] { real_->broadcast(data, root); });
  }
  void all_to_all(Tensor recv, Tensor send) override {
    collective("all_to_all", recv, [=, this] { real_->all_to_all(recv, send); });
  }
  void send_recv(Tensor recv, int source, Tensor send, int destination) override {
    collective("send_recv", recv, [=, this] { real_->send_recv(recv, source, send, destination); });
  }

 private:
  // call: reduces a tensor into recv.
  void reduction(std::string_view name, const Tensor& recv, const Tensor& send,
                 const std::function<void(const Tensor&)>& call) {
    const std::string lie = lie_of(name, recv);
    lack_memory(lie);
    if (lie == "root") real_->broadcast(send, 0);
    if (lie != "skip") call(send);
    if (lie == "twice") call(recv);
    spoil(lie, recv);
  }

  void collective(std::string_view name, const Tensor& recv, const std::function<void()>& call) {
    const std::string lie = lie_of(name, recv);
    lack_memory(lie);
    if (lie != "skip") call();
    spoil(lie, recv);
  }

  // As NCCL, which allocates at the first use of an operation.
  void lack_memory(std::string_view lie) const {
    if (lie != "memory") return;
    const std::size_t limit = device_.info().memory_bytes;
    throw OutOfMemory(limit, device_.ledger(), limit, "NCCL");
  }

  void spoil(std::string_view lie, const Tensor& recv) {
    if (lie == "throw" && real_->rank() == 1)
      throw std::runtime_error("this was foreseen by nobody");
    if (lie == "last") {
      const Tensor last = element(recv, recv.numel() - 1);
      real_->all_reduce(last, last, ReduceOp::sum);
    }
    if (lie == "flip" && real_->rank() == 1) flip(element(recv, 0));
  }

  // In stream order: on the stream's thread for host memory, after the stream completes for a GPU.
  void flip(const Tensor& x) {
    if (device_.info().kind == DeviceKind::cpu) {
      stream().enqueue([x] { *static_cast<unsigned char*>(x.data) ^= 1U; });
      return;
    }
    std::array<unsigned char, sizeof(double)> bytes{};
    stream().synchronize();
    device_.to_host(bytes.data(), x);
    bytes.front() ^= 1U;
    device_.to_device(x, bytes.data());
  }

  std::unique_ptr<Communicator> real_;
  Device& device_;
};

// Of float32.
void spoil(std::string_view operation, Ops& ops, const Array& result) {
  const std::string lie = lie_of(operation, result);
  if (lie == "late") std::this_thread::sleep_for(std::chrono::seconds(12));
  if (lie != "wrong") return;
  const Tensor first = element(result, 0);
  float value = 0;
  ops.device().synchronize();
  ops.device().to_host(&value, first);
  value += 1;
  ops.device().to_device(first, &value);
}

}  // namespace

template <class OwnDevice>
using Communicators = std::unique_ptr<Communicator>(World& world, OwnDevice& device);
using Attention = Array(Ops& ops, Saved& saved, Array x, const AttentionShape& shape);

Communicators<Device> real_host asm(
    "__real__ZN8paceline22make_host_communicatorERNS_5WorldERNS_6DeviceE");
Communicators<Device> lying_host asm(
    "__wrap__ZN8paceline22make_host_communicatorERNS_5WorldERNS_6DeviceE");
Communicators<GpuDevice> real_nccl asm(
    "__real__ZN8paceline22make_nccl_communicatorERNS_5WorldERNS_9GpuDeviceE");
Communicators<GpuDevice> lying_nccl asm(
    "__wrap__ZN8paceline22make_nccl_communicatorERNS_5WorldERNS_9GpuDeviceE");

// Members of Ops, whose object is the first argument.
Attention real_forward asm(
    "__real__ZN8paceline3Ops9attentionERNS_5SavedENS_5ArrayERKNS_14AttentionShapeE");
Attention real_backward asm(
    "__real__ZN8paceline3Ops18attention_backwardERNS_5SavedENS_5ArrayERKNS_14AttentionShapeE");
Attention lying_forward asm(
    "__wrap__ZN8paceline3Ops9attentionERNS_5SavedENS_5ArrayERKNS_14AttentionShapeE");
Attention lying_backward asm(
    "__wrap__ZN8paceline3Ops18attention_backwardERNS_5SavedENS_5ArrayERKNS_14AttentionShapeE");

std::unique_ptr<Communicator> lying_host(World& world, Device& device) {
  return std::make_unique<LyingCommunicator>(real_host(world, device), device);
}

std::unique_ptr<Communicator> lying_nccl(World& world, GpuDevice& device) {
  return std::make_unique<LyingCommunicator>(real_nccl(world, device), device);
}

Array lying_forward(Ops& ops, Saved& saved, Array x, const AttentionShape& shape) {
  Array y = real_forward(ops, saved, std::move(x), shape);
  spoil("attention", ops, y);
  return y;
}

Array lying_backward(Ops& ops, Saved& saved, Array x, const AttentionShape& shape) {
  Array dx = real_backward(ops, saved, std::move(x), shape);
  spoil("attention_backward", ops, dx);
  return dx;
}

int real_library(char* text, int* length) asm("__real_MPI_Get_library_version");
int lying_library(char* text, int* length) asm("__wrap_MPI_Get_library_version");
std::string real_nccl_version() asm("__real__ZN8paceline12nccl_versionB5cxx11Ev");
std::string lying_nccl_version() asm("__wrap__ZN8paceline12nccl_versionB5cxx11Ev");

int lying_library(char* text, int* length) {
  const int result = real_library(text, length);
  const std::string lie = lie_of("library", {});
  if (lie == "other") *length = std::sprintf(text, "Other MPI v1");
  if (lie == "print") std::puts("a library's line");
  return result;
}

std::string lying_nccl_version() {
  return lie_of("nccl_version", {}) == "other" ? "1.0.0" : real_nccl_version();
}

}  // namespace paceline
