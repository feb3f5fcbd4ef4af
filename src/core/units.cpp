#include "core/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"

namespace paceline {

namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t>, 10> byte_units = {{
    {"", 1},
    {"B", 1},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"KiB", std::int64_t{1} << 10},
    {"MiB", std::int64_t{1} << 20},
    {"GiB", std::int64_t{1} << 30},
    {"TiB", std::int64_t{1} << 40},
}};

[[noreturn]] void throw_not_a_size(std::string_view text, std::string_view why) {
  throw UsageError(fmt::format(
      "'{}' {}: write a number with B, KB, MB, GB or TB (powers of ten) or with KiB, MiB, GiB or "
      "TiB (powers of two), such as 25MB",
      text, why));
}

// Removes and returns the leading digits of `text`.
std::string_view take_digits(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
  text.remove_prefix(digits.size());
  return digits;
}

std::string scaled_text(double value, const std::array<std::string_view, 6>& units) {
  if (std::isnan(value)) return "-";
  std::size_t i = 0;
  constexpr double rounds_to_1000 = 999.5;
  while (i + 1 < units.size() && std::abs(value) >= rounds_to_1000) {
    value /= 1000;
    ++i;
  }
  const bool whole = i == 0 && value == std::floor(value);
  const std::string number = whole ? fmt::format("{:.0f}", value) : number_text(value);
  return units[i].empty() ? number : fmt::format("{} {}", number, units[i]);
}

}  // namespace

std::int64_t parse_bytes(std::string_view text) {
  std::string_view rest = text;
  const std::string_view whole = take_digits(rest);
  std::string_view fraction;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    fraction = take_digits(rest);
    if (fraction.empty()) throw_not_a_size(text, "is not a size");
  }
  if (whole.empty()) throw_not_a_size(text, "is not a size");
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);

  for (const auto& [name, unit] : byte_units) {
    if (rest != name) continue;
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    std::int64_t count = 0;
    const auto parsed = std::from_chars(whole.data(), whole.data() + whole.size(), count);
    // From the last digit, dividing by ten at each: exact, because floor(floor(x) / 10) = floor(x /
    // 10).
    std::int64_t part = 0;
    for (std::size_t i = fraction.size(); i-- > 0;) part = (part + (fraction[i] - '0') * unit) / 10;
    if (parsed.ec != std::errc{} || count > (most - part) / unit) {
      throw_not_a_size(text, "is too large");
    }
    return count * unit + part;
  }
  throw_not_a_size(text, "is not a size");
}

std::int64_t parse_integer(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range ||
      (error == std::errc{} && stop == end && (value < least || value > most))) {
    throw UsageError(fmt::format("{} is out of range; use {} to {}", text, least, most));
  }
  if (error != std::errc{} || stop != end) {
    throw UsageError(fmt::format("'{}' is not a whole number", text));
  }
  return value;
}

double parse_real(std::string_view text, double least, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) {
    throw UsageError(fmt::format("'{}' is not a number", text));
  }
  if (value < least || value > most) {
    throw UsageError(fmt::format("{} is out of range; use {} to {}", text, least, most));
  }
  return least < 0 ? value : std::abs(value);  // "-0" equals "0"
}

std::string number_text(double value, int digits) {
  if (std::isnan(value)) return "-";
  if (value == 0 || std::isinf(value)) return fmt::format("{}", value);
  std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));  // after rounding
  if (exponent < -4 || exponent >= 15) return scientific;
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - exponent));
}

std::string bytes_text(double bytes) {
  return scaled_text(bytes, {"B", "KB", "MB", "GB", "TB", "PB"});
}

std::string count_text(double count) { return scaled_text(count, {"", "k", "M", "G", "T", "P"}); }

std::string seconds_text(double seconds) {
  if (std::isnan(seconds)) return "-";
  const DisplayUnit display = display_unit_for({seconds}, "s");
  return fmt::format("{} {}", number_text(seconds / display.divisor), display.unit);
}

DisplayUnit display_unit_for(std::vector<double> values, std::string_view unit) {
  constexpr std::array<std::pair<double, std::string_view>, 9> prefixes = {{{1e15, "P"},
                                                                            {1e12, "T"},
                                                                            {1e9, "G"},
                                                                            {1e6, "M"},
                                                                            {1e3, "K"},
                                                                            {1, ""},
                                                                            {1e-3, "m"},
                                                                            {1e-6, "u"},
                                                                            {1e-9, "n"}}};
  std::erase_if(values, [](double v) { return !std::isfinite(v) || v == 0; });
  for (double& v : values) v = std::abs(v);
  std::sort(values.begin(), values.end());
  const double middle = values.empty() ? 1 : values[values.size() / 2];
  const bool bytes = unit.starts_with("bytes");
  if (bytes) unit.remove_prefix(std::string_view("bytes").size());
  DisplayUnit found;
  for (const auto& [divisor, prefix] : prefixes) {
    if (unit == "s" ? divisor > 1 : divisor < 1) continue;
    if (divisor == 1e3 && !bytes) continue;
    found = {divisor, fmt::format("{}{}{}", prefix, bytes ? "B" : "", unit)};
    constexpr double rounds_to_1 = 0.9995;
    if (middle >= rounds_to_1 * divisor) break;
  }
  return found;
}

}  // namespace paceline
