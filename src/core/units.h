#pragma once
// Parsing and formatting of sizes and numbers.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// "1GB", "25 MB", "1.5GiB", "4096", "512B": B, KB, MB, GB, TB are powers of ten, KiB ... TiB of
// two; a bare number is bytes. Rounded down to whole bytes. Throws UsageError (naming the text,
// without an option's name) for anything else, negative values and overflow.
[[nodiscard]] std::int64_t parse_bytes(std::string_view text);

// An integer or finite number in [least, most]. Throw UsageError naming the text.
[[nodiscard]] std::int64_t parse_integer(std::string_view text, std::int64_t least,
                                         std::int64_t most);
[[nodiscard]] double parse_real(std::string_view text, double least, double most);

// `digits` significant digits, and always all digits before the decimal point: with 3 digits,
// 8.1234 -> "8.12", 1234.5 -> "1234". With an exponent below 0.0001 and from 1e15 on. NaN -> "-".
[[nodiscard]] std::string number_text(double value, int digits = 3);

// Decimal units with three significant digits: "129 MB", "1.00 GB"; below 1000 bytes "512 B".
[[nodiscard]] std::string bytes_text(double bytes);
// With k, M, G, T, P: "1.23 T".
[[nodiscard]] std::string count_text(double count);
// Three significant digits and a suitable unit: 8.123 -> "8.12 s", 0.0031 -> "3.10 ms".
[[nodiscard]] std::string seconds_text(double seconds);

// The divisor of a column's numbers, and their unit after the division.
struct DisplayUnit {
  double divisor = 1;
  std::string unit;

  // Four significant digits; "-" for NaN.
  [[nodiscard]] std::string text(double value) const { return number_text(value / divisor, 4); }
};

// A unit that suits the median of the values. "s" becomes s, ms, us or ns; "bytes" becomes B, KB,
// ...; "bytes/s" becomes B/s, KB/s, ...; other units are kept, with a prefix from a million on.
[[nodiscard]] DisplayUnit display_unit_for(std::vector<double> values, std::string_view unit);

}  // namespace paceline
