#include "core/enum_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/similar_name.h"

namespace paceline {

std::size_t index_of_name(std::span<const std::string_view> names, std::string_view name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) {
    throw UsageError(fmt::format("'{}' is unknown; choose {}{}", name, fmt::join(names, ", "),
                                 did_you_mean(name, names)));
  }
  return static_cast<std::size_t>(it - names.begin());
}

void throw_unnamed(std::size_t value) {
  throw InternalError(fmt::format("an enum's value {} has no name", value));
}

std::string joined_names(std::span<const std::string_view> names) {
  return fmt::format("{}", fmt::join(names, " "));
}

}  // namespace paceline
