#include "core/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace paceline {

bool is_utf8(std::string_view text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

std::string filled(const std::vector<std::string>& words, std::size_t width) {
  std::string out;
  std::size_t line = 0;
  for (const std::string& word : words) {
    if (word.empty()) continue;
    const bool fits = line > 0 && line + 1 + word.size() <= width;
    if (line > 0) out += fits ? ' ' : '\n';
    line = fits ? line + 1 + word.size() : word.size();
    out += word;
  }
  return out;
}

std::string wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = filled(split(line, ' '), width);
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace paceline
