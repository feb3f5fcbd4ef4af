#pragma once
// How much longer do runs of B take than runs of A? The ratio of their medians with an interval
// that allows for the variation between runs, and what follows from it. docs/measuring.md has the
// reasons and the measured rates of false alarms.

#include <cstdint>
#include <span>
#include <vector>

#include "core/enum_names.h"

namespace paceline {

// A run of A and the run of B made next to it: seconds of every repetition.
struct RunPair {
  std::vector<double> a;
  std::vector<double> b;
};

struct RunRatio {
  double ratio = 0;  // median(B) / median(A); of several pairs the median of their ratios
  double low = 0;    // NaN where there is no interval
  double high = 0;
};

// The fewest pairs whose ratios have an interval of their own. With fewer pairs not even the range
// from the lowest ratio to the highest contains the median with a probability of 99.8%.
constexpr std::size_t pairs_for_sign_test = 10;

// From pairs_for_sign_test pairs on: the 99.8% interval of the median of the pairs' ratios by the
// sign test, [r_k, r_(n+1-k)] with the largest k for which 2 P(Binomial(n, 1/2) < k) <= 0.2%. With
// fewer: ratio / f to ratio * f, f = (s_A s_B)^2, where s is the spread of all repetitions of a
// side, x_(n+1-k) / x_k with k = ceil(n / 10). A run beside itself has [1, 1]. No interval where a
// run has fewer than 6 repetitions or a time that is no positive number. Of no pairs every member
// is NaN.
[[nodiscard]] RunRatio ratio_of_runs(std::span<const RunPair> pairs);

enum class Verdict : std::uint8_t { faster, slower, same, undecided };
constexpr auto names_of(Verdict) { return names("faster", "slower", "same", "undecided"); }

// With t = threshold (0.02 is 2%): slower when low > 1 + t, faster when high < 1 / (1 + t), same
// when the interval lies within [1 / (1 + t), 1 + t], else undecided.
[[nodiscard]] Verdict verdict_of(const RunRatio& ratio, double threshold);

}  // namespace paceline
