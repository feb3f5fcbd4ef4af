#include "core/device.h"

#include <fmt/format.h>

#include "core/units.h"

namespace paceline {

OutOfMemory::OutOfMemory(std::size_t asked, std::size_t used, std::size_t most, std::string where)
    : std::runtime_error(fmt::format(
          "'{}' asked for {} with {} of {} in use", where, bytes_text(static_cast<double>(asked)),
          bytes_text(static_cast<double>(used)), bytes_text(static_cast<double>(most)))),
      requested(asked),
      in_use(used),
      limit(most),
      scope(std::move(where)) {}

}  // namespace paceline
