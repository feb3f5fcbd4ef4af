#pragma once
// The contributions of the phases of a repetition to its headline; they add up to the headline.

#include <vector>

namespace paceline {

using RankSamples = std::vector<std::vector<double>>;  // [rank][repetition] seconds

struct HeadlinePart {
  double of_median = 0;  // seconds
  double of_mean = 0;    // seconds
};

// The headline of a repetition is the maximum over ranks. A part is a phase's time on the rank with
// this maximum (the lowest such rank). of_median: in the repetition with the median headline (for
// an even number of repetitions, the mean of the middle two). of_mean: the mean over all
// repetitions. The last part is the rest: the headline minus all phases. The parts therefore add up
// to the median, and to the mean, of the headline. Empty without repetitions; NaN if any sample is
// NaN.
[[nodiscard]] std::vector<HeadlinePart> headline_parts(
    const std::vector<const RankSamples*>& phases, const RankSamples& headline);

}  // namespace paceline
