#pragma once
// The ratio of the medians of runs of B and runs of A, with an interval that covers the variation
// between runs, and the verdict. docs/measuring.md has the reasons and the measured rates of false
// positives.

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
  double ratio = 0;  // median(B) / median(A); for several pairs, the median of their ratios
  double low = 0;    // NaN if there is no interval
  double high = 0;
};

// The smallest number of pairs for the sign test. With fewer pairs, not even the range from the
// lowest ratio to the highest contains the median with a probability of 99.8%.
constexpr std::size_t pairs_for_sign_test = 10;

// With at least pairs_for_sign_test pairs: the 99.8% interval of the median of the pairs' ratios by
// the sign test, [r_k, r_(n+1-k)] with the largest k for which 2 P(Binomial(n, 1/2) < k) <= 0.2%.
// With fewer pairs: [ratio / f, ratio f], f = (s_A s_B)^2, where s is the spread of all repetitions
// of a side, the longest over the shortest. A run compared with itself has [1, 1]. No interval if a
// run has fewer than 6 repetitions or a time that is not a positive number. Without pairs every
// member is NaN.
[[nodiscard]] RunRatio ratio_of_runs(std::span<const RunPair> pairs);

enum class Verdict : std::uint8_t { faster, slower, same, undecided };
constexpr auto names_of(Verdict) { return names("faster", "slower", "same", "undecided"); }

// With t = threshold (0.02 is 2%): slower when low > 1 + t, faster when high < 1 / (1 + t), same
// when the interval lies within [1 / (1 + t), 1 + t], else undecided.
[[nodiscard]] Verdict verdict_of(const RunRatio& ratio, double threshold);

}  // namespace paceline
