#pragma once
// The statistics of samples: summaries, the parts of a headline, and a fit of latency and
// bandwidth. tests/unit checks each formula.

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline {

using RankSamples = std::vector<std::vector<double>>;  // [rank][repetition] seconds

struct Summary {
  double median = 0;
  double ci_low = 0;  // 95% interval of the median, nonparametric; NaN below 6 values
  double ci_high = 0;
  double mean = 0;
  double std = 0;  // of the sample (n - 1); NaN for one value
  double min = 0;
  double max = 0;
  double p95 = 0;
};

// The members of a Summary by the names of their columns.
inline constexpr std::array<std::pair<std::string_view, double Summary::*>, 8> summary_figures = {
    {{"median", &Summary::median},
     {"ci_low", &Summary::ci_low},
     {"ci_high", &Summary::ci_high},
     {"mean", &Summary::mean},
     {"std", &Summary::std},
     {"min", &Summary::min},
     {"max", &Summary::max},
     {"p95", &Summary::p95}}};

// With the order statistics x_1 <= ... <= x_n of the values:
// median = x_((n+1)/2), or the mean of the middle two for even n;
// interval = [x_k, x_(n+1-k)]: for independent values k is the largest with
// 2 P(Binomial(n, 1/2) < k) <= 5% (Le Boudec, "Performance Evaluation", 2010, theorem 2.1). The
// distance of k from the middle grows by the root of autocorrelation_time(), as does the standard
// deviation of the number of values below the median; k is at least 1;
// p95 = x_ceil(0.95 n) (nearest rank).
// Every member is NaN if there are no values or any value is NaN.
[[nodiscard]] Summary summarize(std::span<const double> values);

// n / autocorrelation_time() independent values determine the median of n as well as these do, in
// the order of their measurement: 1 + 2 (r_1 + ... + r_W), at least 1, where r_k are the
// autocorrelations of their signs about the median. W is the smallest window of at least 3 times
// the result (Sokal, "Monte Carlo Methods in Statistical Mechanics", 1997); times 1 + (2 W + 1) / n
// against the bias of short series (Wolff, Comput. Phys. Commun. 156, 2004).
[[nodiscard]] double autocorrelation_time(std::span<const double> values);

// The maximum over ranks of each repetition. Throws InternalError if ranks have different counts.
[[nodiscard]] std::vector<double> max_over_ranks(const RankSamples& samples);

// The rank whose median is the largest (the lowest such rank).
[[nodiscard]] int slowest_rank(const RankSamples& samples);

// The contribution of a phase of the repetitions to their headline.
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

struct TimedSize {
  double bytes = 0;
  double seconds = 0;
};

// The model time = latency + bytes / bandwidth, fitted to a sweep.
struct LatencyBandwidth {
  double latency = 0;      // seconds, >= 0
  double bandwidth = 0;    // bytes per second; infinite if time does not grow with size
  double worst_error = 0;  // the largest |fitted - measured| / measured
};

// Least squares of relative errors (weights 1 / seconds^2). If latency or slope would be negative,
// it is set to 0 and the other is fitted alone. NaN for fewer than two different sizes, or times
// <= 0.
[[nodiscard]] LatencyBandwidth fit_latency_bandwidth(const std::vector<TimedSize>& points);

}  // namespace paceline
