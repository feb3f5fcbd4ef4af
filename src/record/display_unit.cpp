#include "record/display_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

// The largest prefix with which the value is 1 or more, else the smallest prefix.
const Prefix& fitting(std::span<const Prefix> largest_first, double value) {
  for (const Prefix& prefix : largest_first) {
    if (value >= prefix.divisor) return prefix;
  }
  return largest_first.back();
}

}  // namespace

std::string DisplayUnit::text(double value) const {
  constexpr int digits = 4;
  return number_text(value / divisor, digits);
}

std::string DisplayUnit::interval_text(double low, double high) const {
  if (std::isnan(low) || std::isnan(high)) return "-";
  return fmt::format("{} .. {}", text(low), text(high));
}

DisplayUnit display_unit_for(std::vector<double> values, std::string_view unit) {
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

std::string head_for(std::string_view name, std::string_view unit, const DisplayUnit& display) {
  std::string suffix = fmt::format("_{}", unit);
  if (const std::size_t per = suffix.find('/'); per != std::string::npos) {
    suffix.replace(per, 1, "_per_");
  }
  if (!unit.empty() && name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return display.unit.empty() ? std::string(name) : fmt::format("{} [{}]", name, display.unit);
}

}  // namespace paceline
