#pragma once
// Device: allocator, streams, events, graph capture, peak figures. Implemented by src/cpu and cuda.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
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
class ToyOps;
struct AttentionShape;
struct OpsConfig;
struct Precision;

// A point in a stream's work; recorded during a capture, that of every launch of the graph.
class Event : NonCopyable {
 public:
  virtual ~Event() = default;

  virtual void synchronize() = 0;  // the host waits until the point is reached
  // Seconds from `earlier` (of the same device) to this one; both must have been reached.
  [[nodiscard]] virtual double seconds_since(const Event& earlier) const = 0;
};
using EventPtr = std::shared_ptr<Event>;

// Work in order. Different streams run side by side but for wait().
class Stream : NonCopyable {
 public:
  virtual ~Stream() = default;

  [[nodiscard]] virtual EventPtr record() = 0;   // an event after all work so far
  virtual void wait(const EventPtr& event) = 0;  // later work here starts after the event
  // Later work here starts after all work so far of another stream of the device.
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

  // Makes it ready to launch, which the first launch() does otherwise.
  virtual void upload() {}
  virtual void launch() = 0;
  [[nodiscard]] virtual GraphNodes nodes() const { return {}; }
};

// A tensor that shares ownership of its memory: the last copy to go releases it.
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

// Thrown by Device::allocate: not the end of a run but an `oom` row.
class OutOfMemory : public std::runtime_error {
 public:
  // What the ledger counts at that moment, in all and per kind, is in what().
  OutOfMemory(std::size_t asked, const MemoryLedger& ledger, std::size_t most, std::string where);

  std::size_t requested;  // bytes
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
  std::size_t memory_bytes = 0;  // what allocate() may hand out in all
  std::size_t cache_bytes = 0;   // of the last level: what "cold" must go beyond
  int threads = 0;               // CPU threads of this rank
  std::vector<std::pair<std::string, std::string>> versions;  // of libraries: {"cuda", "13.0"}
};

class Device : NonCopyable {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual DeviceInfo info() const = 0;

  // Memory aligned to 256 bytes, not initialised. Throws OutOfMemory.
  [[nodiscard]] virtual Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) = 0;
  // After freeze() allocate() uses only memory that was reserved before (a rehearsal's) and
  // throws InternalError where that is not enough; trim() ends that and gives back what is unused.
  virtual void freeze() = 0;
  virtual void trim() = 0;
  // Whether nothing was reserved or given back since the last call. After a step that was not the
  // first: another like it will find all its memory reserved.
  [[nodiscard]] virtual bool reserved_unchanged() = 0;
  // Bytes taken from the system: in use and kept for reuse.
  [[nodiscard]] virtual std::size_t reserved_bytes() const = 0;
  // Bytes in use by the system's own count: of a GPU's memory (the CUDA context, libraries and
  // other processes included), or of host memory resident in this process.
  [[nodiscard]] virtual std::size_t driver_bytes() const = 0;

  [[nodiscard]] virtual Stream& compute_stream() = 0;
  [[nodiscard]] virtual Stream& communication_stream() = 0;
  [[nodiscard]] virtual Stream& gather_stream() = 0;     // of collectives beside those
  [[nodiscard]] virtual Stream& optimizer_stream() = 0;  // beside backward
  virtual void synchronize() = 0;                        // all streams

  // Runs `work` without effect but to record what it enqueues on `stream` and on streams that wait
  // for it. The result can be launched any number of times, on that stream.
  [[nodiscard]] virtual std::unique_ptr<Graph> capture(Stream& stream,
                                                       std::function<void()> work) = 0;

  // Copies between a tensor on the device and host memory; the host may use the memory on return.
  virtual void to_device(const Tensor& device, const void* host) = 0;
  virtual void to_host(void* host, const Tensor& device) = 0;
  // All bits of the tensor to 0, in the compute stream's order.
  virtual void zero(const Tensor& device) = 0;

  [[nodiscard]] virtual std::unique_ptr<Ops> make_ops(const OpsConfig& config) = 0;
  [[nodiscard]] virtual std::unique_ptr<ToyOps> make_toy_ops() = 0;
  // Throws EnvironmentError when the device has no kernel for such attention.
  virtual void check_attention(const OpsConfig& /*config*/, const AttentionShape& /*shape*/) const {
  }

  // Measured: large GEMMs as this precision does them, FLOP/s of each of six at least. Takes about
  // a second.
  [[nodiscard]] virtual std::vector<double> gemm_rates(const Precision& precision) = 0;
  // Measured: copies within the device, bytes read and written per second of each.
  [[nodiscard]] virtual std::vector<double> copy_rates() = 0;
  // What it says of the conditions that it runs under.
  [[nodiscard]] virtual std::unique_ptr<Sensors> sensors() const = 0;
  // Profiles what is enqueued until Profiler::finish(), which must come before the device's end.
  // One at a time.
  [[nodiscard]] virtual std::unique_ptr<Profiler> start_profiler();
  // Of each NVLink that is up: bytes/s in one direction, NaN where that is not told.
  [[nodiscard]] virtual std::vector<double> nvlinks() const { return {}; }
  // The vendor's dense figure for such GEMMs, FLOP/s; nothing where none is stated.
  [[nodiscard]] virtual std::optional<double> datasheet_peak(const Precision& precision) const = 0;

  // From the first call to the driver until the device was there: its context, its streams. 0 where
  // nobody has measured that.
  void set_start_seconds(double seconds) { start_seconds_ = seconds; }
  [[nodiscard]] double start_seconds() const { return start_seconds_; }

  [[nodiscard]] MemoryLedger& ledger() { return ledger_; }
  [[nodiscard]] virtual ScopeStack& scopes() { return scopes_; }

 private:
  double start_seconds_ = 0;
  MemoryLedger ledger_;
  ScopeStack scopes_;
};

}  // namespace paceline
