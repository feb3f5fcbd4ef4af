#pragma once
// Tests of a series of times: whether it has a trend, and whether it has two modes.

#include <cstddef>
#include <optional>
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

struct TwoModes {
  double low = 0;  // the medians of the groups, low < high
  double high = 0;
  std::size_t low_count = 0;
};

// Splits the sorted values into the two groups with the smallest sum of squared distances from
// their means (2-means, exact in one dimension). Returns the groups if each has at least a fifth of
// the values, Ashman's D = sqrt(2) |m1 - m2| / sqrt(s1^2 + s2^2) (Ashman, Bird and Zepf 1994)
// exceeds 7, and the groups' medians differ by more than 2%. False positives: one series of 20
// normal values in 3,000, three series of 20 exponential values in 1,000. Empty below 20 values.
[[nodiscard]] std::optional<TwoModes> two_modes(std::span<const double> values);

}  // namespace paceline
