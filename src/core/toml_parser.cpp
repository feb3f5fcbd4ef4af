// parse_toml() by toml++, which this file alone includes; core/stub/no_toml.cpp takes its place
// where toml++ is not installed.

#define TOML_HEADER_ONLY 1
// Some text that is not TOML breaks toml++'s own assertions. Without them it says what is wrong.
#define TOML_ASSERT(condition) static_assert(true)
#define TOML_MAX_NESTED_VALUES 32
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "core/toml.h"

namespace paceline {

namespace {

TomlPosition position_of(const toml::source_region& region) {
  return {region.begin.line, region.begin.column};
}

TomlValue value_of(const toml::node& node);

TomlTable table_of(const toml::table& table) {
  TomlTable result;
  for (const auto& [key, node] : table) {
    result.entries.push_back({std::string(key.str()), position_of(key.source()), value_of(node)});
  }
  std::stable_sort(result.entries.begin(), result.entries.end(),
                   [](const TomlEntry& a, const TomlEntry& b) {
                     return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
                   });
  return result;
}

template <class T>
TomlDateTime date_time_of(const toml::value<T>& value) {
  std::ostringstream text;
  text << value.get();
  return {text.str()};
}

TomlValue value_of(const toml::node& node) {
  TomlValue result{.value = {}, .at = position_of(node.source())};
  node.visit([&](const auto& n) {
    using Node = std::remove_cvref_t<decltype(n)>;
    if constexpr (toml::is_table<Node>) {
      result.value = table_of(n);
    } else if constexpr (toml::is_array<Node>) {
      TomlArray values;
      for (const toml::node& element : n) values.push_back(value_of(element));
      result.value = std::move(values);
    } else if constexpr (toml::is_chronological<Node>) {
      result.value = date_time_of(n);
    } else {
      result.value = n.get();
    }
  });
  return result;
}

}  // namespace

TomlDocument parse_toml(std::string_view text, const std::string& file) {
  TomlDocument document{.file = file, .root = {}};
  // Each part is a table in a table, which toml++ and table_of() leave by recursion.
  constexpr std::size_t most_parts = 32;
  if (most_parts_of_a_key(text) > most_parts) {
    throw UsageError(fmt::format("{}: has a key of more than {} parts", file, most_parts));
  }
  // For most of them toml++ runs into what it takes for unreachable.
  if (has_letters_outside_of_text(text)) {
    throw UsageError(
        fmt::format("{}: has letters outside of strings and comments that are not ASCII", file));
  }
  try {
    document.root = table_of(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    std::replace(what.begin(), what.end(), '\n', ' ');
    throw document.error(position_of(error.source()), what);
  }
  return document;
}

}  // namespace paceline
