#pragma once
// TOML 1.0 files as a tree of values, each with its position in the file.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.h"

namespace paceline {

// Both count from 1.
struct TomlPosition {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

// A date, a time or both, as TOML writes it.
struct TomlDateTime {
  std::string text;
};

struct TomlValue;
using TomlArray = std::vector<TomlValue>;

struct TomlEntry;
struct TomlTable {
  std::vector<TomlEntry> entries;  // in the order of the file

  // Null if there is no such key.
  [[nodiscard]] const TomlEntry* find(std::string_view key) const;
};

struct TomlValue {
  std::variant<std::string, std::int64_t, double, bool, TomlDateTime, TomlArray, TomlTable> value;
  TomlPosition at;
};

struct TomlEntry {
  std::string key;
  TomlPosition at;  // of the key
  TomlValue value;
};

// "a string", "an integer", "a real number", "a boolean", "a date or time", "an array", "a table"
[[nodiscard]] std::string_view kind_of(const TomlValue& value);

struct TomlDocument {
  std::string file;
  TomlTable root;

  // "F.toml:3:5: `what`"
  [[nodiscard]] UsageError error(TomlPosition at, std::string_view what) const;
};

// Throws UsageError with file, line and column for text that is not TOML 1.0 (a duplicate key, for
// example) and for tables nested too deep; EnvironmentError if the program was built without a TOML
// library. `file` is for messages.
[[nodiscard]] TomlDocument parse_toml(std::string_view text, const std::string& file);

// Throws as parse_toml(), and UsageError for a file that cannot be read or is larger than 16 MiB.
[[nodiscard]] TomlDocument read_toml(const std::string& file);

// The largest number of parts of a key in `text`, which may be invalid TOML: "a.b.c" has three.
[[nodiscard]] std::size_t max_key_parts(std::string_view text);

// `text` as a TOML string in double quotes.
[[nodiscard]] std::string toml_quoted(std::string_view text);

}  // namespace paceline
