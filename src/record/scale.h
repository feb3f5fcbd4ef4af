#pragma once
// Units that suit the numbers of a column.

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

// What a column's numbers are divided by, and the unit that they have then.
struct Scale {
  double divisor = 1;
  std::string unit;

  // Four significant digits; "-" for NaN.
  [[nodiscard]] std::string text(double value) const;
  // "8.119 .. 8.127"; "-" where there is no interval.
  [[nodiscard]] std::string interval_text(double low, double high) const;
};

// A scale that suits the middle one of the values. Unit "s" becomes s, ms, us or ns; "bytes" B, KB,
// ...; "bytes/s" likewise; another keeps its name, from a million on with a prefix.
[[nodiscard]] Scale scale_for(std::vector<double> values, std::string_view unit);
// "peak_bytes", with its unit scaled -> "peak [MB]".
[[nodiscard]] std::string head_for(std::string_view name, std::string_view unit,
                                   const Scale& scale);

}  // namespace paceline
