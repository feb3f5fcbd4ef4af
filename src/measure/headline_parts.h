#pragma once
// What the phases of a repetition contribute to its headline, so that the parts of a row add up.

#include <vector>

namespace paceline {

using RankSamples = std::vector<std::vector<double>>;  // [rank][repetition] seconds

struct HeadlinePart {
  double of_median = 0;  // seconds
  double of_mean = 0;    // seconds
};

// The headline of a repetition is the maximum over ranks. A part is a phase's time on the rank that
// has this maximum (the lowest such rank): of_median in the repetition with the median headline (of
// an even number, the mean over the middle two), of_mean the mean over all repetitions. The last
// part is the rest: the headline less the phases. So the parts add up to the median, and to the
// mean, of the headline's maxima over ranks. Without repetitions there are none; NaN where a sample
// is NaN.
[[nodiscard]] std::vector<HeadlinePart> headline_parts(
    const std::vector<const RankSamples*>& phases, const RankSamples& headline);

}  // namespace paceline
