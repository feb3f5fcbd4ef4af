#include "core/device.h"

#include <fmt/format.h>

namespace paceline {

OutOfMemory::OutOfMemory(std::size_t asked, std::size_t used, std::size_t most, std::string where)
    : std::runtime_error(fmt::format("out of memory: {} bytes more were asked for in '{}' with {} "
                                     "of {} bytes in use",
                                     asked, where, used, most)),
      requested(asked),
      in_use(used),
      limit(most),
      scope(std::move(where)) {}

}  // namespace paceline
