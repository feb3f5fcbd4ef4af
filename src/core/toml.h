#pragma once
// TOML 1.0 files, by toml++.

#define TOML_HEADER_ONLY 1
#define TOML_ASSERT(condition) static_assert(true)  // it would abort at some invalid texts
#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "core/error.h"

namespace paceline {

// Throws UsageError, with file, line and column, for a file that cannot be read or is not TOML.
[[nodiscard]] toml::table read_toml(const std::string& file);

// "F.toml:3:5: `what`"
[[nodiscard]] UsageError error_at(const toml::source_region& place, std::string_view what);

}  // namespace paceline
