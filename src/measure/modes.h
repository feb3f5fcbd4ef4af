#pragma once
// Detects bimodal times.

#include <cstddef>
#include <optional>
#include <span>

namespace paceline {

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
