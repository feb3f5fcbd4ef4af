#include "experiments/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "core/units.h"
#include "record/console.h"

namespace paceline {

namespace {

std::string value_text(const PlanLine& line) {
  if (std::isinf(line.value)) return "none";
  switch (line.unit) {
    case PlanUnit::number: return count_text(line.value);
    case PlanUnit::count: return grouped(line.value);
    case PlanUnit::bytes: return both_sizes(line.value);
    case PlanUnit::seconds: return seconds_text(line.value);
    case PlanUnit::tokens: return grouped(line.value) + " tokens";
    case PlanUnit::devices: return grouped(line.value) + " devices";
  }
  return "";
}

// Name, value and formula on one line; a formula that does not fit goes on the lines below.
std::string lines_text(const std::vector<PlanLine>& lines) {
  constexpr std::size_t width = 100;
  std::size_t names = 0;
  std::size_t values = 0;
  for (const PlanLine& line : lines) {
    names = std::max(names, line.what.size());
    values = std::max(values, value_text(line).size());
  }
  const std::size_t margin = 2 + names + 2 + values + 2;
  std::string text;
  for (const PlanLine& line : lines) {
    const std::string head =
        fmt::format("  {:<{}}  {:>{}}", line.what, names, value_text(line), values);
    if (line.formula.empty()) {
      text += head + '\n';
    } else if (margin + line.formula.size() <= width) {
      text += fmt::format("{}  {}\n", head, line.formula);
    } else {
      text += head + '\n';
      for (const std::string& folded : split(wrapped(line.formula, width - 6), '\n')) {
        text += fmt::format("      {}\n", folded);
      }
    }
  }
  return text;
}

}  // namespace

std::string grouped(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  const std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t i = point; i > 3 && text[i - 4] != '-'; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(static_cast<double>(count)), noun, count == 1 ? "" : "s");
}

std::string both_sizes(double bytes) {
  constexpr double shows_digits = 1e4;  // of two decimals of a megabyte
  if (bytes < shows_digits) return counted(std::llround(bytes), "byte");
  constexpr double mega = 1e6;
  constexpr double mebi = 0x1p20;
  const auto text = [](double value) { return grouped(value, 2); };
  if (bytes >= giga) {
    return fmt::format("{} GB = {} GiB", text(bytes / giga), text(bytes / gibi));
  }
  return fmt::format("{} MB = {} MiB", text(bytes / mega), text(bytes / mebi));
}

std::string report_text(const std::vector<PlanSection>& sections) {
  std::string text;
  for (const PlanSection& section : sections) {
    if (!text.empty()) text += '\n';
    text += section.title + '\n' + lines_text(section.lines);
    if (section.table) text += closing_table(*section.table);
    if (!section.note.empty()) text += wrapped(section.note) + '\n';
  }
  return text;
}

std::string report_json(const std::vector<PlanSection>& sections) {
  std::string text;
  const auto add = [&](const PlanSection& section, Row cells) {
    cells.insert(cells.begin(), {"section", section.name});
    text += json_line(cells) + '\n';
  };
  for (const PlanSection& section : sections) {
    Row values;
    for (const PlanLine& line : section.lines) values.push_back({line.key, line.value});
    if (!values.empty()) add(section, values);
    if (values.empty() && !section.table) add(section, {{"note", section.note}});
    if (!section.table) continue;
    const std::vector<Column>& columns = section.table->columns;
    for (std::size_t i = 0; i < length_of(columns.front()); ++i) add(section, row_of(columns, i));
  }
  return text;
}

}  // namespace paceline
