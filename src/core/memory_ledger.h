#pragma once
// The ledger of a device's memory: every allocation and release with its size, kind, scope and
// time. It reports the bytes in use, their peak (in total and per kind), the largest allocations
// with their scopes, and, while recording, the history of allocations and releases.

#include <array>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/enum_names.h"
#include "core/tensor.h"

namespace paceline {

enum class MemoryKind : unsigned char {
  parameter,
  gradient,
  optimizer_state,
  activation,
  communication,
  gathered,  // whole parameters, gathered from the ranks' shards
  workspace,
};
constexpr auto names_of(MemoryKind) {
  return names("parameter", "gradient", "optimizer_state", "activation", "communication",
               "gathered", "workspace");
}
inline constexpr std::size_t memory_kinds = names_of(MemoryKind{}).size();

struct Allocation {
  std::size_t bytes = 0;  // with the allocator's rounding
  MemoryKind kind = MemoryKind::workspace;
  std::string scope;
  Shape shape = {};
  Dtype dtype = Dtype::f32;
};

struct MemoryEvent {
  double seconds = 0;        // since recording began
  std::ptrdiff_t bytes = 0;  // negative: a release
  MemoryKind kind = MemoryKind::workspace;
  std::string scope;
  std::size_t address = 0;
  std::string phase;  // empty: allocated before recording began
};

class MemoryLedger {
 public:
  void allocated(const void* address, Allocation allocation);
  void released(const void* address);

  [[nodiscard]] std::size_t bytes() const { return now_.all; }
  [[nodiscard]] std::size_t bytes(MemoryKind kind) const { return now_.of(kind); }
  // The maximum of bytes() since construction or reset_peak().
  [[nodiscard]] std::size_t peak() const { return peak_.all; }
  [[nodiscard]] std::size_t peak(MemoryKind kind) const { return peak_.of(kind); }
  // Restarts the peaks and the list of the largest allocations from what is in use now.
  void reset_peak();

  // Begins a phase of the step: later events carry its name, and phase_peak() restarts.
  void begin_phase(std::string name);
  [[nodiscard]] std::size_t phase_peak() const { return phase_peak_.all; }
  [[nodiscard]] std::size_t phase_peak(MemoryKind kind) const { return phase_peak_.of(kind); }

  // The allocations in use, in no order.
  [[nodiscard]] std::vector<Allocation> allocations() const;
  // The largest `count` allocations in use at any time since reset_peak(), largest first.
  // Allocations of equal size, shape and kind whose scopes differ only in numbers ("block 3") count
  // once, as "block *".
  [[nodiscard]] std::vector<Allocation> largest(std::size_t count) const;

  // Records every event from now on. The allocations in use come first, at time 0.
  void start_recording();
  [[nodiscard]] std::vector<MemoryEvent> stop_recording();

 private:
  struct Bytes {
    std::size_t all = 0;
    std::array<std::size_t, memory_kinds> by_kind{};
    [[nodiscard]] std::size_t& of(MemoryKind k) { return by_kind[static_cast<std::size_t>(k)]; }
    [[nodiscard]] std::size_t of(MemoryKind k) const {
      return by_kind[static_cast<std::size_t>(k)];
    }
  };

  void record(const void* address, const Allocation& allocation, int sign);
  void remember_largest(const Allocation& in_use);

  std::unordered_map<const void*, Allocation> allocations_;
  Bytes now_;
  Bytes peak_;
  Bytes phase_peak_;
  std::string phase_;
  std::vector<Allocation> largest_;
  bool recording_ = false;
  double began_ = 0;
  std::vector<MemoryEvent> events_;
};

}  // namespace paceline
