#pragma once
// Display units of table columns.

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// The divisor of a column's numbers, and their unit after the division.
struct DisplayUnit {
  double divisor = 1;
  std::string unit;

  // Four significant digits; "-" for NaN.
  [[nodiscard]] std::string text(double value) const;
  // "8.119 .. 8.127"; "-" if there is no interval.
  [[nodiscard]] std::string interval_text(double low, double high) const;
};

// A unit that suits the median of the values. "s" becomes s, ms, us or ns; "bytes" becomes B, KB,
// ...; "bytes/s" becomes B/s, KB/s, ...; other units are kept, with a prefix from a million on.
[[nodiscard]] DisplayUnit display_unit_for(std::vector<double> values, std::string_view unit);
// A column head: "peak_bytes" in MB -> "peak [MB]".
[[nodiscard]] std::string head_for(std::string_view name, std::string_view unit,
                                   const DisplayUnit& display);

}  // namespace paceline
