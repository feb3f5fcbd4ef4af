#include <fmt/format.h>

#include "core/toml.h"

namespace paceline {

TomlDocument parse_toml(std::string_view /*text*/, const std::string& file) {
  throw EnvironmentError(
      fmt::format("{}: this build has no toml++ and reads no TOML; run 'make deps' (it installs "
                  "libtomlplusplus-dev), then 'make clean all'",
                  file));
}

}  // namespace paceline
