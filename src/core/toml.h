#pragma once
// TOML 1.0 files, by toml++.

#define TOML_HEADER_ONLY 1
#define TOML_ASSERT(condition) static_assert(true)  // it would abort at some invalid texts
#include <fmt/format.h>
#include <toml++/toml.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "core/error.h"

namespace paceline {

// "F.toml:3:5: `what`"
[[nodiscard]] inline UsageError error_at(const toml::source_region& place, std::string_view what) {
  return UsageError(fmt::format("{}:{}:{}: {}", place.path ? *place.path : "", place.begin.line,
                                place.begin.column, what));
}

// Throws UsageError, with file, line and column, for a file that cannot be read or is not TOML.
[[nodiscard]] inline toml::table read_toml(const std::string& file) {
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

}  // namespace paceline
