#include "core/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace paceline {

const TomlEntry* TomlTable::find(std::string_view key) const {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const TomlEntry& entry) { return entry.key == key; });
  return it == entries.end() ? nullptr : &*it;
}

std::string_view kind_of(const TomlValue& value) {
  constexpr std::array<std::string_view, 7> kinds = {"a string",  "an integer",     "a real number",
                                                     "a boolean", "a date or time", "an array",
                                                     "a table"};
  static_assert(std::variant_size_v<decltype(value.value)> == kinds.size());
  return kinds[value.value.index()];
}

UsageError TomlDocument::error(TomlPosition at, std::string_view what) const {
  return UsageError(fmt::format("{}:{}:{}: {}", file, at.line, at.column, what));
}

TomlDocument read_toml(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw UsageError(
        fmt::format("{}: cannot be opened: {}", file, std::generic_category().message(errno)));
  }
  constexpr std::size_t most = std::size_t{16} << 20;
  std::string text(most + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) throw UsageError(fmt::format("{}: cannot be read; name a TOML file", file));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > most) throw UsageError(fmt::format("{}: is larger than 16 MiB", file));
  return parse_toml(text, file);
}

std::string toml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    constexpr unsigned char delete_character = 0x7f;
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (code < ' ' || code == delete_character) {
      quoted += fmt::format("\\u{:04X}", code);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace paceline
