#include "core/memory_ledger.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/clock.h"
#include "core/error.h"

namespace paceline {

namespace {

constexpr std::size_t kept_largest = 32;

// "forward/block 12/ffn" -> "forward/block */ffn"
std::string without_numbers(const std::string& scope) {
  std::string text;
  for (const char c : scope) {
    if (c < '0' || c > '9') {
      text += c;
    } else if (text.empty() || text.back() != '*') {
      text += '*';
    }
  }
  return text;
}

}  // namespace

void MemoryLedger::allocated(const void* address, Allocation allocation) {
  now_.all += allocation.bytes;
  now_.of(allocation.kind) += allocation.bytes;
  for (Bytes* highest : {&peak_, &phase_peak_}) {
    highest->all = std::max(highest->all, now_.all);
    highest->of(allocation.kind) = std::max(highest->of(allocation.kind), now_.of(allocation.kind));
  }
  remember_largest(allocation);
  record(address, allocation, +1);
  if (!allocations_.emplace(address, std::move(allocation)).second) {
    throw InternalError("an allocation was recorded twice in the memory ledger");
  }
}

void MemoryLedger::released(const void* address) {
  const auto it = allocations_.find(address);
  if (it == allocations_.end())
    throw InternalError("an allocation was released that the memory ledger does not have");
  now_.all -= it->second.bytes;
  now_.of(it->second.kind) -= it->second.bytes;
  record(address, it->second, -1);
  allocations_.erase(it);
}

void MemoryLedger::reset_peak() {
  peak_ = now_;
  largest_.clear();
  for (const auto& [address, allocation] : allocations_) remember_largest(allocation);
}

void MemoryLedger::begin_phase(std::string name) {
  phase_ = std::move(name);
  phase_peak_ = now_;
}

std::vector<Allocation> MemoryLedger::allocations() const {
  std::vector<Allocation> allocations;
  for (const auto& [address, allocation] : allocations_) allocations.push_back(allocation);
  return allocations;
}

void MemoryLedger::remember_largest(const Allocation& in_use) {
  if (largest_.size() == kept_largest && in_use.bytes <= largest_.back().bytes) return;
  Allocation entry = in_use;
  entry.scope = without_numbers(in_use.scope);
  const auto same = [&](const Allocation& b) {
    return b.bytes == entry.bytes && b.kind == entry.kind && b.shape == entry.shape &&
           b.scope == entry.scope;
  };
  if (std::any_of(largest_.begin(), largest_.end(), same)) return;
  const auto larger = [](const Allocation& a, const Allocation& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.scope < b.scope;
  };
  largest_.insert(std::upper_bound(largest_.begin(), largest_.end(), entry, larger),
                  std::move(entry));
  if (largest_.size() > kept_largest) largest_.pop_back();
}

std::vector<Allocation> MemoryLedger::largest(std::size_t count) const {
  const std::size_t n = std::min(count, largest_.size());
  return {largest_.begin(), largest_.begin() + static_cast<std::ptrdiff_t>(n)};
}

void MemoryLedger::start_recording() {
  events_.clear();
  recording_ = true;
  began_ = host_seconds();
  for (const auto& [address, allocation] : allocations_) record(address, allocation, +1);
  for (MemoryEvent& e : events_) {
    e.seconds = 0;
    e.phase.clear();
  }
}

std::vector<MemoryEvent> MemoryLedger::stop_recording() {
  recording_ = false;
  return std::move(events_);
}

void MemoryLedger::record(const void* address, const Allocation& allocation, int sign) {
  if (!recording_) return;
  events_.push_back({host_seconds() - began_, sign * static_cast<std::ptrdiff_t>(allocation.bytes),
                     allocation.kind, allocation.scope, reinterpret_cast<std::size_t>(address),
                     phase_});
}

}  // namespace paceline
