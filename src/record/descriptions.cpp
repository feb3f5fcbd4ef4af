#include "record/descriptions.h"

#include <algorithm>
#include <optional>

namespace paceline {

namespace {

// The text that '*' matches in `pattern`; nullopt if the pattern does not match.
std::optional<std::string_view> matched(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  const std::string_view head = pattern.substr(0, star);
  const std::string_view tail = pattern.substr(star + 1);
  if (name.size() <= head.size() + tail.size()) return std::nullopt;
  if (!name.starts_with(head) || !name.ends_with(tail)) return std::nullopt;
  return name.substr(head.size(), name.size() - head.size() - tail.size());
}

bool is_pattern(const Description& d) { return d.name.find('*') != std::string_view::npos; }

}  // namespace

const Description* find_description(std::string_view group, std::string_view name) {
  const Description* pattern = nullptr;
  for (const Description& d : descriptions()) {
    if (d.group != group) continue;
    if (d.name == name) return &d;
    if (pattern == nullptr && is_pattern(d) && matched(d.name, name)) pattern = &d;
  }
  return pattern;
}

std::string text_of(const Description& description, std::string_view name) {
  std::string text(description.text);
  const std::size_t star = text.find('*');
  if (!is_pattern(description) || star == std::string::npos) return text;
  return text.replace(star, 1, matched(description.name, name).value_or(name));
}

std::string unit_of(std::string_view group, std::string_view name) {
  const Description* d = find_description(group, name);
  if (d == nullptr || d->unit == "1" || d->unit == "text") return "";
  return std::string(d->unit);
}

void describe(std::string_view group, const std::vector<FactorNote>& factors,
              std::vector<Column>& columns) {
  for (Column& column : columns) {
    const auto note = std::ranges::find(factors, column.name, &FactorNote::name);
    const bool is_factor = note != factors.end();
    if (column.unit.empty()) column.unit = is_factor ? note->unit : unit_of(group, column.name);
    if (!column.description.empty()) continue;
    const Description* d = find_description(group, column.name);
    if (is_factor) {
      column.description = note->description;
    } else if (d != nullptr) {
      column.description = text_of(*d, column.name);
    }
  }
}

}  // namespace paceline
