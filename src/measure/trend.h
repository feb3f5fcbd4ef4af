#pragma once
// Tests whether a series of times has a trend.

#include <span>

namespace paceline {

// The Mann-Kendall statistic (Mann 1945; Kendall 1975). S: the number of pairs i < j of the n
// values that rise, minus the number that fall. Returns S with a continuity correction over its
// standard deviation under the null hypothesis: (S - sign S) / sqrt(n (n - 1) (2 n + 5) / 18).
// Approximately standard normal for 10 or more values; 0 below 2 values.
[[nodiscard]] double mann_kendall(std::span<const double> values);

// The median of the second half of the values over the median of the first half, minus 1. A middle
// value belongs to neither half. 0 below 2 values.
[[nodiscard]] double drift(std::span<const double> values);

// There is a trend if |mann_kendall| > z and |drift| > least.
struct TrendTest {
  double z = 1.96;  // one false positive in 20 for independent values
  double least = 0.005;
};
[[nodiscard]] bool has_trend(std::span<const double> values, const TrendTest& test);

// Whether the last repetitions of a case, at least 10 that take at least 2 s in total, show no
// trend. The governor of a GPU at its power limit needs about 1 s to find sustainable clocks, and
// oscillates around them with a period of 1.3 s (H200).
[[nodiscard]] bool is_steady(std::span<const double> seconds);

}  // namespace paceline
