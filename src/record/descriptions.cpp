#include "record/descriptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <variant>

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

void require(bool is_text, bool expected_text, std::string_view kind, const std::string& name,
             const std::string& place) {
  if (is_text == expected_text) return;
  throw Hdf5Error(fmt::format("{} '{}' of {} is {}, not {}", kind, name, place,
                              is_text ? "text" : "a number", expected_text ? "text" : "a number"));
}

bool is_text(const hdf5::Dataset& dataset) { return dataset.type_class() == H5T_STRING; }

// The name in the descriptions of the group `name` in the group that is `outer` there.
std::string described_name(const std::string& outer, const std::string& name) {
  if (outer == "cases") return "cases/<id>";
  if (outer == "runs") return "runs/<run>";
  const bool is_table = outer == "/" || outer == "cases/<id>" || outer == "runs/<run>";
  return is_table ? name : outer + "/" + name;
}

// Checks a group and all groups in it. `described`: its name in the descriptions.
void check_types(const hdf5::Group& group, const std::string& described, const std::string& place,
                 const hdf5::Group& summary) {
  const bool is_case = described == "cases/<id>";
  for (const std::string& name : group.attribute_names()) {
    const Description* d = find_description(described + " attributes", name);
    const bool is_factor = d == nullptr && is_case && summary.has(name);
    if (d == nullptr && !is_factor) continue;
    const bool text = std::holds_alternative<std::string>(group.attribute(name));
    require(text, is_factor ? is_text(summary.dataset(name)) : d->unit == "text", "attribute", name,
            place);
  }
  std::set<hdf5::Dims> lengths;
  for (const std::string& name : group.names()) {
    if (group.is_group(name)) {
      check_types(group.group(name), described_name(described, name),
                  (described == "/" ? "/" : place + "/") + name, summary);
    } else if (const Description* d = find_description(described, name)) {
      const hdf5::Dataset column = group.dataset(name);
      require(is_text(column), d->unit == "text", "column", name, place);
      if (column.dims().size() == 1 && !is_case) lengths.insert(column.dims());
    }
  }
  if (lengths.size() > 1) {
    throw Hdf5Error(fmt::format("the columns of {} differ in length", place));
  }
}

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

void require_described_types(const hdf5::File& file) {
  check_types(file, "/", "/", file.group("summary"));
}

}  // namespace paceline
