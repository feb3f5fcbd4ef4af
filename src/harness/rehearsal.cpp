#include "harness/rehearsal.h"

#include <fmt/format.h>

#include <new>

#include "core/units.h"
#include "harness/gather.h"

namespace paceline {

bool fits_in_memory(World& world, CaseRecord& record, double predicted,
                    const std::function<void()>& work) {
  std::string refusal;
  collectively(world, [&] {
    try {
      work();
    } catch (const OutOfMemory& error) {
      refusal = error.what();
    } catch (const std::bad_alloc&) {
      refusal = "the host's own memory does not suffice";
    }
  });
  record.status = world.agree(refusal.empty() ? Status::ok : Status::oom);
  if (record.status == Status::ok) return true;
  record.reason =
      fmt::format("about {} are needed; {}", bytes_text(predicted), first_text(world, refusal));
  return false;
}

void repeat_until_settled(Device& device, const std::string& what,
                          const std::function<void()>& step) {
  constexpr int most = 5;
  const MemoryLedger& ledger = device.ledger();
  for (int steps = 1; !device.settled(); ++steps) {
    if (steps == most) {
      throw OutOfMemory(ledger.peak() - ledger.bytes(), ledger, device.info().memory_bytes, what);
    }
    step();
  }
}

}  // namespace paceline
