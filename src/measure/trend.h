#pragma once
// Whether a series of times still moves, or has settled.

#include <span>

namespace paceline {

// The Mann-Kendall statistic (Mann 1945; Kendall 1975): of all pairs i < j of n values, those that
// rise less those that fall, S; over its standard deviation without a trend, after a correction for
// continuity: (S - sign S) / sqrt(n (n - 1) (2 n + 5) / 18). Normal with variance 1 for 10 values
// and more; 0 below 2 values.
[[nodiscard]] double mann_kendall(std::span<const double> values);

// The median of the second half of the values over that of the first, less 1; 0 below 2 values. A
// middle value counts to neither half.
[[nodiscard]] double drift(std::span<const double> values);

// A trend: |mann_kendall| above `z`, and a drift of more than `least`.
struct TrendTest {
  double z = 1.96;  // one false alarm in 20 for independent values
  double least = 0.005;
};
[[nodiscard]] bool has_trend(std::span<const double> values, const TrendTest& test);

// Of the times of a case's repetitions so far: whether those at its end that took 2 s together, and
// 10 at least, show no trend. A GPU at its power limit needs some 1 s until its governor has found
// the clocks that it can keep, and swings around them with a period of 1.3 s (H200).
[[nodiscard]] bool is_steady(std::span<const double> seconds);

}  // namespace paceline
