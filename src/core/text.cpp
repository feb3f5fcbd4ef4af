#include "core/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

namespace paceline {

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
