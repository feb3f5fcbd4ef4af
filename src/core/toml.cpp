#include "core/toml.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace paceline {

toml::table read_toml(const std::string& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  (void)in.peek();  // a folder can be opened, but not read
  if (errno != 0) {
    throw UsageError(
        fmt::format("{}: cannot be read: {}", file, std::generic_category().message(errno)));
  }
  try {
    return toml::parse(in, std::string_view(file));
  } catch (const toml::parse_error& error) {
    throw error_at(error.source(),
                   fmt::format("{} (text needs quotes: size = \"tiny\")", error.description()));
  }
}

UsageError error_at(const toml::source_region& place, std::string_view what) {
  return UsageError(fmt::format("{}:{}:{}: {}", place.path ? *place.path : "", place.begin.line,
                                place.begin.column, what));
}

}  // namespace paceline
