#include "mpi/wait_registry.h"

#include <algorithm>

#include "core/error.h"

namespace paceline {

thread_local WaitRegistry::Slot* WaitRegistry::innermost = nullptr;

void WaitRegistry::begin(std::string_view what, WaitFor target) {
  auto* const slot = std::find_if(slots_.begin(), slots_.end(), [](Slot& s) {
    return !s.taken.exchange(true, std::memory_order_acquire);
  });
  if (slot == slots_.end()) throw InternalError("too many threads wait for other ranks");
  // A reader that sees any of the stores below then sees the id 0, or a later id.
  std::atomic_thread_fence(std::memory_order_release);
  const std::size_t length = std::min(what.size(), text_size - 1);
  for (std::size_t i = 0; i < length; ++i) {
    slot->what.at(i).store(what[i], std::memory_order_relaxed);
  }
  slot->what.at(length).store('\0', std::memory_order_relaxed);
  slot->since.store(clock_.now(), std::memory_order_relaxed);
  slot->target.store(target, std::memory_order_relaxed);
  slot->id.store(1 + begun_.fetch_add(1, std::memory_order_relaxed), std::memory_order_release);
  slot->outer = innermost;
  innermost = slot;
}

void WaitRegistry::end() {
  Slot* const slot = innermost;
  innermost = slot->outer;
  slot->id.store(0, std::memory_order_relaxed);
  slot->taken.store(false, std::memory_order_release);
}

std::vector<WaitRegistry::Wait> WaitRegistry::active() const {
  std::vector<Wait> waits;
  for (const Slot& slot : slots_) {
    Wait wait{slot.id.load(std::memory_order_acquire), {}, {}, {}};
    if (wait.id == 0) continue;
    wait.since = slot.since.load(std::memory_order_relaxed);
    wait.target = slot.target.load(std::memory_order_relaxed);
    for (const std::atomic<char>& letter : slot.what) {
      const char c = letter.load(std::memory_order_relaxed);
      if (c == '\0') break;
      wait.what += c;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.id.load(std::memory_order_relaxed) == wait.id) waits.push_back(wait);
  }
  return waits;
}

}  // namespace paceline
