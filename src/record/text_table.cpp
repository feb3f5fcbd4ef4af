#include "record/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "core/units.h"

namespace paceline {

namespace {

struct Prefix {
  double divisor;
  std::string_view name;
};

constexpr std::array<Prefix, 4> times = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
constexpr std::array<Prefix, 5> sizes = {
    {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}, {1, "B"}}};
constexpr std::array<Prefix, 5> prefixes = {
    {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1, ""}}};

double middle_of(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v) || v == 0; });
  for (double& v : values) v = std::abs(v);
  if (values.empty()) return 1;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The largest prefix that leaves 1 or more, or the smallest.
const Prefix& fitting(std::span<const Prefix> largest_first, double value) {
  for (const Prefix& prefix : largest_first) {
    if (value >= prefix.divisor) return prefix;
  }
  return largest_first.back();
}

// The text of one factor, "" where the row lacks it.
std::string text_of(const FactorTexts& row, std::string_view name) {
  const auto it =
      std::find_if(row.begin(), row.end(), [&](const auto& f) { return f.first == name; });
  return it == row.end() ? "" : it->second;
}

bool is_number_or_empty(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return text.empty() || (error == std::errc{} && end == text.data() + text.size());
}

}  // namespace

std::string factors_line(const FactorTexts& factors) {
  constexpr std::size_t columns = 100;
  std::string out;
  for (const auto& [name, text] : factors) {
    const std::string piece = fmt::format("{} {}", name, text);
    const std::size_t line = out.size() - (out.rfind('\n') + 1);
    const std::size_t room = 2 + piece.size() + 1;  // ", " before it, "," behind it
    if (!out.empty()) out += line + room > columns ? ",\n" : ", ";
    out += piece;
  }
  return out;
}

TextTable::TextTable(const std::vector<FactorTexts>& factors) : factors_(factors.size()) {
  std::vector<std::string> names;  // in the order of the first row, then as they appear
  for (const FactorTexts& row : factors) {
    for (const auto& [name, _] : row) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  FactorTexts same;
  for (const std::string& name : names) {
    std::vector<std::string> texts;
    for (const FactorTexts& row : factors) texts.push_back(text_of(row, name));
    if (std::count(texts.begin(), texts.end(), texts.front()) == std::ssize(texts)) {
      same.emplace_back(name, texts.front());
      continue;
    }
    const bool numbers = std::all_of(texts.begin(), texts.end(), is_number_or_empty);
    column(name, numbers ? Align::right : Align::left);
    for (std::size_t i = 0; i < texts.size(); ++i) factors_[i].push_back(texts[i]);
  }
  if (!same.empty()) above_ = factors_line(same) + '\n';
}

void TextTable::column(std::string head, Align align) {
  heads_.push_back(std::move(head));
  aligns_.push_back(align);
}

void TextTable::row(std::vector<std::string> cells, std::string tail) {
  if (!factors_.empty()) {
    const std::vector<std::string>& factors = factors_.at(rows_.size());
    cells.insert(cells.begin(), factors.begin(), factors.end());
  }
  rows_.push_back({std::move(cells), std::move(tail)});
}

std::string TextTable::line(const Row& row, const std::vector<std::size_t>& widths) const {
  std::string out;
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    const char* pattern = aligns_[i] == Align::right ? "{:>{}}  " : "{:<{}}  ";
    out += fmt::format(fmt::runtime(pattern), row.cells[i], widths[i]);
  }
  out += row.tail;
  out.erase(out.find_last_not_of(' ') + 1);
  return out + '\n';
}

std::string TextTable::str() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    std::size_t width = heads_[i].size();
    for (const Row& row : rows_) {
      if (i < row.cells.size()) width = std::max(width, row.cells[i].size());
    }
    widths.push_back(width);
  }
  std::string out = above_ + (heads_.empty() ? "" : line({heads_, ""}, widths));
  for (const Row& row : rows_) out += line(row, widths);
  return out;
}

std::string Scale::text(double value) const {
  constexpr int digits = 4;
  return number_text(value / divisor, digits);
}

std::string Scale::interval_text(double low, double high) const {
  if (std::isnan(low) || std::isnan(high)) return "-";
  return fmt::format("{} .. {}", text(low), text(high));
}

Scale scale_for(std::vector<double> values, std::string_view unit) {
  const double middle = middle_of(std::move(values));
  if (unit == "s" || unit == "bytes") {
    const Prefix& prefix = unit == "s" ? fitting(times, middle) : fitting(sizes, middle);
    return {prefix.divisor, std::string(prefix.name)};
  }
  if (unit == "bytes/s") {
    const Prefix& prefix = fitting(sizes, middle);
    return {prefix.divisor, fmt::format("{}/s", prefix.name)};
  }
  const Prefix& prefix = fitting(prefixes, middle);
  return {prefix.divisor, fmt::format("{}{}", prefix.name, unit)};
}

std::string head_for(std::string_view name, std::string_view unit, const Scale& scale) {
  std::string suffix = fmt::format("_{}", unit);
  if (const std::size_t per = suffix.find('/'); per != std::string::npos) {
    suffix.replace(per, 1, "_per_");
  }
  if (!unit.empty() && name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return scale.unit.empty() ? std::string(name) : fmt::format("{} [{}]", name, scale.unit);
}

}  // namespace paceline
