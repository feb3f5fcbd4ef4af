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

namespace {

// The position after the string or comment that begins at `at`; `at` itself if none begins there.
std::size_t past_text(std::string_view text, std::size_t at) {
  if (text[at] == '#') return std::min(text.find('\n', at), text.size());
  if (text[at] != '"' && text[at] != '\'') return at;
  const std::string delimiter(text.substr(at).starts_with(std::string(3, text[at])) ? 3 : 1,
                              text[at]);
  std::size_t end = at + delimiter.size();
  while (end < text.size() && !text.substr(end).starts_with(delimiter)) {
    end += text[at] == '"' && text[end] == '\\' ? 2 : 1;
  }
  end += delimiter.size();
  // A multi-line string may end in quotes that belong to it.
  while (delimiter.size() > 1 && end < text.size() && text[end] == text[at]) ++end;
  return std::min(end, text.size());
}

}  // namespace

std::size_t max_key_parts(std::string_view text) {
  std::size_t most = 1;
  std::size_t parts = 1;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t past = past_text(text, at);
    if (past > at) {
      at = past;
      continue;
    }
    if (text[at] == '.') most = std::max(most, ++parts);
    if (std::string_view("=,[]{}\n").find(text[at]) != std::string_view::npos) parts = 1;
    ++at;
  }
  return most;
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
  std::string text;
  for (std::array<char, 4096> part{}; in && text.size() <= most;) {
    in.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) throw UsageError(fmt::format("{}: cannot be read; name a TOML file", file));
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
