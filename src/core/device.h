#pragma once
// Device: allocator, streams, events, graph capture, peak figures. Implemented by src/cpu and cuda.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/enum_names.h"
#include "core/memory_ledger.h"
#include "core/non_copyable.h"
#include "core/scope.h"
#include "core/tensor.h"

namespace paceline {

class Ops;
class Profiler;
class Sensors;
struct AttentionShape;
struct OpsConfig;
struct Precision;

// A point in a stream's work. An event recorded during a capture is recorded anew by every launch
// of the graph.
class Event : NonCopyable {
 public:
  virtual ~Event() = default;

  virtual void synchronize() = 0;  // the host waits until the point is reached
  // Seconds from `earlier` (of the same device) to this one; both must have been reached.
  [[nodiscard]] virtual double seconds_since(const Event& earlier) const = 0;
};
using EventPtr = std::shared_ptr<Event>;

// Work on a stream runs in order; different streams run concurrently unless one waits for another.
class Stream : NonCopyable {
 public:
  virtual ~Stream() = default;

  [[nodiscard]] virtual EventPtr record() = 0;   // after all work enqueued so far
  virtual void wait(const EventPtr& event) = 0;  // later work on this stream starts after it
  // Later work on this stream starts after all work enqueued so far on `other`, of the same device.
  virtual void follow(Stream& other) = 0;
  virtual void enqueue(std::function<void()> host_function) = 0;
  virtual void synchronize() = 0;  // the host waits; rethrows what a host function threw
};

struct GraphNodes {
  std::int64_t all = 0;
  std::int64_t kernels = 0;
};

// Work that was captured once and can be launched again.
class Graph : NonCopyable {
 public:
  virtual ~Graph() = default;

  // Prepares the graph for launching; otherwise the first launch() does.
  virtual void instantiate() {}
  virtual void launch() = 0;
  [[nodiscard]] virtual GraphNodes nodes() const { return {}; }
};

// A tensor that shares ownership of its memory: destroying the last copy releases the memory.
class Array {
 public:
  Array() = default;
  Array(Tensor tensor, std::shared_ptr<void> owner) : tensor_(tensor), owner_(std::move(owner)) {}

  [[nodiscard]] const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }  // NOLINT(google-explicit-constructor)
  [[nodiscard]] const Shape& shape() const { return tensor_.shape; }
  [[nodiscard]] Dtype dtype() const { return tensor_.dtype; }
  [[nodiscard]] bool empty() const { return tensor_.empty(); }
  [[nodiscard]] Array reshape(const Shape& to) const { return {tensor_.reshape(to), owner_}; }

 private:
  Tensor tensor_;
  std::shared_ptr<void> owner_;
};

// Thrown by Device::allocate(). The case is recorded with status `oom`, and the run goes on.
class OutOfMemory : public std::runtime_error {
 public:
  // what() contains the bytes in use by the ledger, in total and per kind.
  OutOfMemory(std::size_t asked, const MemoryLedger& ledger, std::size_t most, std::string where);

  std::size_t requested;  // bytes; 0: unknown
  std::size_t in_use;     // bytes that the ledger counted
  std::size_t limit;      // bytes that the device may hand out
  std::string scope;
};

enum class DeviceKind : unsigned char { cpu, cuda };
constexpr auto names_of(DeviceKind) { return names("cpu", "cuda"); }

struct DeviceInfo {
  DeviceKind kind = DeviceKind::cpu;
  std::string name;  // the model, as the vendor writes it
  std::string uuid;  // empty on the CPU
  std::string pci_bus_id;
  std::size_t memory_bytes = 0;  // upper limit of allocate(), in total
  std::size_t cache_bytes = 0;   // last-level cache: a "cold" benchmark must exceed it
  int threads = 0;               // CPU threads of this rank
  std::vector<std::pair<std::string, std::string>> versions;  // libraries: {"cuda", "13.0"}
};

class Device : NonCopyable {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual DeviceInfo info() const = 0;

  // Memory aligned to 256 bytes, not initialised. Throws OutOfMemory.
  [[nodiscard]] virtual Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) = 0;
  // After freeze(), allocate() uses only memory that is already reserved (by a rehearsal) and
  // throws InternalError when that is not enough. trim() unfreezes and releases unused memory to
  // the system.
  virtual void freeze() = 0;
  virtual void trim() = 0;
  // True if no memory was reserved or released to the system since the last call. If that holds for
  // a step after the first one, the following steps need no new memory.
  [[nodiscard]] virtual bool reserved_unchanged() = 0;
  // Bytes reserved from the system: in use, or cached for reuse.
  [[nodiscard]] virtual std::size_t reserved_bytes() const = 0;
  // Bytes in use as the system counts them. GPU: all used device memory, with the CUDA context,
  // libraries and other processes. CPU: resident host memory of this process.
  [[nodiscard]] virtual std::size_t driver_bytes() const = 0;

  [[nodiscard]] virtual Stream& compute_stream() = 0;
  [[nodiscard]] virtual Stream& communication_stream() = 0;
  [[nodiscard]] virtual Stream& gather_stream() = 0;     // overlapping gathers
  [[nodiscard]] virtual Stream& optimizer_stream() = 0;  // overlaps with backward
  virtual void synchronize() = 0;                        // waits for all streams

  // Records the work that `work` enqueues on `stream`, and on streams that wait for `stream`,
  // without executing it. The graph can be launched any number of times, on that stream.
  [[nodiscard]] virtual std::unique_ptr<Graph> capture(Stream& stream,
                                                       std::function<void()> work) = 0;

  // Copies between a tensor on the device and host memory. Blocking: the host may use the memory on
  // return.
  virtual void to_device(const Tensor& device, const void* host) = 0;
  virtual void to_host(void* host, const Tensor& device) = 0;
  // Sets all bits of the tensor to 0, on the compute stream.
  virtual void zero(const Tensor& device) = 0;

  [[nodiscard]] virtual std::unique_ptr<Ops> make_ops(const OpsConfig& config) = 0;
  // Throws EnvironmentError if the device has no kernel for this attention.
  virtual void check_attention(const OpsConfig& /*config*/, const AttentionShape& /*shape*/) const {
  }

  // Measures large GEMMs in this precision: FLOP/s of each of at least six repetitions. Takes about
  // a second.
  [[nodiscard]] virtual std::vector<double> gemm_rates(const Precision& precision) = 0;
  // Measures copies within the device: bytes read and written per second, of each repetition.
  [[nodiscard]] virtual std::vector<double> copy_rates() = 0;
  // The device's sensors, such as its clocks.
  [[nodiscard]] virtual std::unique_ptr<Sensors> sensors() const = 0;
  // Profiles the work enqueued from now until Profiler::finish(), which must be called before the
  // device is destroyed. At most one profiler at a time.
  [[nodiscard]] virtual std::unique_ptr<Profiler> start_profiler();
  // Bytes/s in one direction of each NVLink that is up; NaN if the driver does not report it.
  [[nodiscard]] virtual std::vector<double> nvlinks() const { return {}; }
  // The vendor's dense peak of GEMMs in this precision, FLOP/s; empty if the data sheet has none.
  [[nodiscard]] virtual std::optional<double> datasheet_peak(const Precision& precision) const = 0;

  // Seconds from the first driver call until the device, its context and its streams were created.
  // 0 if not measured.
  void set_start_seconds(double seconds) { start_seconds_ = seconds; }
  [[nodiscard]] double start_seconds() const { return start_seconds_; }

  [[nodiscard]] MemoryLedger& ledger() { return ledger_; }
  [[nodiscard]] virtual ScopeStack& scopes() { return scopes_; }

 private:
  double start_seconds_ = 0;
  MemoryLedger ledger_;
  ScopeStack scopes_;
};

// Copies between floats on the host and device tensors of any floating-point dtype. Blocking.
inline void put_floats(Device& device, const Tensor& to, std::span<const float> from) {
  dispatch_floating(to.dtype, [&]<class T>() {
    const std::vector<T> own(from.begin(), from.end());
    device.to_device(to, own.data());
  });
}
[[nodiscard]] inline std::vector<float> get_floats(Device& device, const Tensor& from) {
  return dispatch_floating(from.dtype, [&]<class T>() {
    std::vector<T> own(static_cast<std::size_t>(from.numel()));
    device.to_host(own.data(), from);
    return std::vector<float>(own.begin(), own.end());
  });
}

}  // namespace paceline
