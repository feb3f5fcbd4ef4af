#include "core/device.h"

#include <fmt/format.h>

#include "core/profiler.h"
#include "core/units.h"

namespace paceline {

namespace {

std::string text(std::size_t bytes) { return bytes_text(static_cast<double>(bytes)); }

// " (parameter 5.32 MB, activation 1.02 MB)"; empty when nothing is in use.
std::string by_kind(const MemoryLedger& ledger) {
  std::string kinds;
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    if (ledger.bytes(kind) == 0) continue;
    kinds +=
        fmt::format("{}{} {}", kinds.empty() ? "" : ", ", name_of(kind), text(ledger.bytes(kind)));
  }
  return kinds.empty() ? "" : " (" + kinds + ")";
}

}  // namespace

std::unique_ptr<Profiler> Device::start_profiler() {
  return std::make_unique<EventProfiler>(*this);
}

OutOfMemory::OutOfMemory(std::size_t asked, const MemoryLedger& ledger, std::size_t most,
                         std::string where)
    : std::runtime_error(fmt::format("'{}' {} with {} of {} in use{}", where,
                                     asked == 0 ? "found no memory" : "asked for " + text(asked),
                                     text(ledger.bytes()), text(most), by_kind(ledger))),
      requested(asked),
      in_use(ledger.bytes()),
      limit(most),
      scope(std::move(where)) {}

}  // namespace paceline
