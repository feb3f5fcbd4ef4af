// Values of options in TOML files: see option_parser.h.

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "core/toml.h"
#include "harness/option_parser.h"

namespace paceline {

namespace {

std::string text_of(std::string_view key, const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "yes" : "no";
  throw error_at(node.source(),
                 fmt::format("{}: must be text in quotes, a number, true, false or an array", key));
}

// NaN, which differs from itself, is written as text.
bool is_toml_number(const std::string& text) {
  try {
    const auto number = toml::parse("number = " + text)["number"].value<double>();
    return number && std::isfinite(*number);
  } catch (const toml::parse_error&) {
    return false;
  }
}

std::string toml_value(const std::string& text, ValueType type) {
  if (type == ValueType::yes_no) return text == "yes" || text == "true" ? "true" : "false";
  if (is_number(type) && is_toml_number(text)) return text;
  // A string of JSON is one of TOML.
  return nlohmann::json(text).dump();
}

}  // namespace

std::vector<FileOption> read_option_file(const std::string& file) {
  std::vector<FileOption> options;
  for (const auto& [key, node] : read_toml(file)) {
    const auto [line, column] = node.source().begin;
    FileOption option{std::string(key.str()), fmt::format("{}:{}:{}", file, line, column), {}};
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& value : *array) option.texts.push_back(text_of(key.str(), value));
    } else {
      option.texts.push_back(text_of(key.str(), node));
    }
    options.push_back(std::move(option));
  }
  return options;
}

std::string option_line(const std::string& key, const std::vector<std::string>& texts,
                        ValueType type) {
  std::vector<std::string> values;
  for (const std::string& text : texts) {
    if (!is_utf8(text))
      throw UsageError(fmt::format("--{}: is not UTF-8, which TOML requires", key));
    values.push_back(toml_value(text, type));
  }
  return values.size() == 1 ? fmt::format("{} = {}", key, values.front())
                            : fmt::format("{} = [{}]", key, fmt::join(values, ", "));
}

}  // namespace paceline
