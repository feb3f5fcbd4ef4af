#include "measure/value_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline {

namespace {

constexpr std::size_t max_values = 10'000;

// The parts of "A..B*F" as text.
struct RangeText {
  std::string_view first;
  std::string_view last;
  char how;  // '*' or '+'
  std::string_view by;
};

RangeText parts_of(std::string_view text) {
  constexpr std::string_view dots = "..";
  const std::size_t place = text.find(dots);
  RangeText parts{.first = text.substr(0, place),
                  .last = text.substr(place + dots.size()),
                  .how = '+',
                  .by = "1"};
  // "1e+3" is a number.
  std::size_t sign = parts.last.find_first_of("*+");
  while (sign != std::string_view::npos && sign > 0 && parts.last[sign] == '+' &&
         (parts.last[sign - 1] == 'e' || parts.last[sign - 1] == 'E')) {
    sign = parts.last.find_first_of("*+", sign + 1);
  }
  if (sign != std::string_view::npos) {
    parts.how = parts.last[sign];
    parts.by = parts.last.substr(sign + 1);
    parts.last = parts.last.substr(0, sign);
  }
  if (parts.first.empty() || parts.last.empty() || parts.by.empty()) {
    throw UsageError(
        fmt::format("'{}' is not a range; write one as 1..5, 64..512+64 or 128..65536*2", text));
  }
  return parts;
}

void add(std::vector<std::string>& values, std::string value, std::string_view text) {
  if (values.size() == max_values) {
    throw UsageError(
        fmt::format("{} has more than {} values; take larger steps, or a factor as in "
                    "128..65536*2",
                    text, max_values));
  }
  values.push_back(std::move(value));
}

template <class Number>
void check(std::string_view text, Number first, Number last, char how, Number by) {
  if (first > last) throw UsageError(fmt::format("{} descends; write the smaller end first", text));
  if (how == '*' && !(by > 1)) {
    throw UsageError(fmt::format("{}: the factor must be above 1", text));
  }
  if (how == '*' && !(first > 0)) {
    throw UsageError(fmt::format(
        "{}: a factor needs a first value above 0; use a step, or write 0 before it: 0,1..8*2",
        text));
  }
  if (how == '+' && !(by > 0)) throw UsageError(fmt::format("{}: the step must be above 0", text));
}

std::int64_t parse_count(std::string_view text) {
  return parse_integer(text, 0, std::numeric_limits<std::int64_t>::max());
}

template <class ReadEnd, class ReadStep>
std::vector<std::string> whole_numbers(std::string_view text, const RangeText& parts,
                                       const ReadEnd& read_end, const ReadStep& read_step) {
  std::int64_t value = read_end(parts.first);
  const std::int64_t last = read_end(parts.last);
  const bool multiplies = parts.how == '*';
  const std::int64_t by = multiplies ? parse_count(parts.by) : read_step(parts.by);
  check(text, value, last, parts.how, by);
  std::vector<std::string> values;
  bool overflow = false;
  while (!overflow && value <= last) {
    add(values, std::to_string(value), text);
    overflow = multiplies ? __builtin_mul_overflow(value, by, &value)
                          : __builtin_add_overflow(value, by, &value);
  }
  return values;
}

std::vector<std::string> real_numbers(std::string_view text, const RangeText& parts,
                                      const Range& limits) {
  const double first = parse_real(parts.first, limits.least, limits.most);
  const double last = parse_real(parts.last, limits.least, limits.most);
  const double by = parse_real(parts.by, 0, std::numeric_limits<double>::max());
  check(text, first, last, parts.how, by);
  constexpr double rounding = 1e-12;  // of a value, relative to it and to the step
  const bool multiplies = parts.how == '*';
  const double least = multiplies ? 0 : rounding * by;
  std::vector<std::string> values;
  for (int i = 0;; ++i) {
    const double value = multiplies ? first * std::pow(by, i) : first + i * by;
    if (!(value <= last + std::max(rounding * std::abs(last), least))) break;
    add(values, fmt::format("{:.15g}", std::abs(value) < least ? 0 : value), text);
  }
  return values;
}

}  // namespace

std::vector<std::string> values_of_range(std::string_view text, ValueType type,
                                         const Range& limits) {
  if (!is_number(type) || text.find("..") == std::string_view::npos) return {std::string(text)};
  const RangeText parts = parts_of(text);
  if (type == ValueType::real) return real_numbers(text, parts, limits);
  if (type == ValueType::size) return whole_numbers(text, parts, parse_bytes, parse_bytes);
  const auto read_end = [&](std::string_view end) {
    return parse_integer(end, static_cast<std::int64_t>(limits.least),
                         static_cast<std::int64_t>(limits.most));
  };
  return whole_numbers(text, parts, read_end, parse_count);
}

}  // namespace paceline
