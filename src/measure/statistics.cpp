#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "core/error.h"

namespace paceline {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

bool has_nan(std::span<const double> values) {
  return std::ranges::any_of(values, [](double v) { return std::isnan(v); });
}

bool has_nan(const RankSamples& samples) {
  return std::ranges::any_of(samples, [](std::span<const double> rank) { return has_nan(rank); });
}

double median_of_sorted(const std::vector<double>& x) {
  const std::size_t n = x.size();
  return n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

double sample_deviation(std::span<const double> values, double mean) {
  if (values.size() < 2) return nan;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

// The largest k with 2 P(Binomial(n, 1/2) < k) <= 5%; 0 below 6.
double binomial_rank(double n) {
  constexpr double error = 0.05;
  double log_probability = -n * std::numbers::ln2;  // of k
  double below = 0;
  for (double k = 0;; ++k) {
    below += std::exp(log_probability);
    if (2 * below > error) return k;
    log_probability += std::log((n - k) / (k + 1));
  }
}

// One repetition on its slowest rank.
struct SlowestRank {
  double headline;
  std::vector<double> parts;  // by phase, then the rest
};

SlowestRank slowest_rank_in(std::size_t repetition, const std::vector<const RankSamples*>& phases,
                            const RankSamples& headline) {
  const auto longest = std::ranges::max_element(
      headline, [&](const auto& a, const auto& b) { return a.at(repetition) < b.at(repetition); });
  const auto rank = static_cast<std::size_t>(longest - headline.begin());
  SlowestRank slowest{.headline = longest->at(repetition), .parts = {}};
  double rest = slowest.headline;
  for (const RankSamples* phase : phases) {
    slowest.parts.push_back(phase->at(rank).at(repetition));
    rest -= slowest.parts.back();
  }
  slowest.parts.push_back(rest);
  return slowest;
}

}  // namespace

Summary summarize(std::span<const double> values) {
  if (values.empty() || has_nan(values)) return {nan, nan, nan, nan, nan, nan, nan, nan};

  std::vector<double> x(values.begin(), values.end());
  std::sort(x.begin(), x.end());
  const std::size_t count = x.size();
  const auto n = static_cast<double>(count);

  Summary s;
  s.median = median_of_sorted(x);
  const double rank = binomial_rank(n);
  const double reach = (n + 1) / 2 - rank;  // from the middle, for independent values
  const double low =
      std::max(1.0, std::floor((n + 1) / 2 - reach * std::sqrt(autocorrelation_time(values))));
  const auto below = static_cast<std::size_t>(low) - 1;
  s.ci_low = rank > 0 ? x[below] : nan;
  s.ci_high = rank > 0 ? x[count - 1 - below] : nan;
  s.mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  s.std = sample_deviation(x, s.mean);
  s.min = x.front();
  s.max = x.back();
  s.p95 = x[(95 * count + 99) / 100 - 1];  // x_ceil(0.95 n), in integer arithmetic
  return s;
}

double autocorrelation_time(std::span<const double> values) {
  std::vector<double> x(values.begin(), values.end());
  std::sort(x.begin(), x.end());
  const double median = x.empty() ? nan : median_of_sorted(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<double>(values[i] > median) - static_cast<double>(values[i] < median);
  }
  const auto products = [&](std::size_t lag) {
    return std::inner_product(x.begin() + static_cast<std::ptrdiff_t>(lag), x.end(), x.begin(),
                              0.0);
  };
  const double of_itself = products(0);
  if (of_itself == 0) return 1;
  constexpr double windows = 3;
  double time = 1;
  std::size_t lag = 0;
  while (static_cast<double>(lag) < windows * time && lag + 1 < x.size()) {
    time += 2 * products(++lag) / of_itself;
  }
  const auto n = static_cast<double>(x.size());
  return std::max(1.0, time * (1 + static_cast<double>(2 * lag + 1) / n));
}

std::vector<double> max_over_ranks(const RankSamples& samples) {
  if (samples.empty()) return {};
  std::vector<double> most = samples.front();
  for (const std::vector<double>& rank : samples) {
    if (rank.size() != most.size()) throw InternalError("ranks have different counts of samples");
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], rank[i]);
  }
  return most;
}

int slowest_rank(const RankSamples& samples) {
  int slowest = 0;
  double longest = -std::numeric_limits<double>::infinity();
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    const double median = summarize(samples[rank]).median;
    if (median > longest) {
      longest = median;
      slowest = static_cast<int>(rank);
    }
  }
  return slowest;
}

std::vector<HeadlinePart> headline_parts(const std::vector<const RankSamples*>& phases,
                                         const RankSamples& headline) {
  const std::size_t n = headline.empty() ? 0 : headline.front().size();
  if (n == 0) return {};
  const auto phase_has_nan = [](const RankSamples* phase) { return has_nan(*phase); };
  if (has_nan(headline) || std::any_of(phases.begin(), phases.end(), phase_has_nan)) {
    return std::vector<HeadlinePart>(phases.size() + 1, {nan, nan});
  }
  std::vector<SlowestRank> repetitions;
  for (std::size_t i = 0; i < n; ++i) {
    repetitions.push_back(slowest_rank_in(i, phases, headline));
  }
  std::ranges::stable_sort(repetitions, {}, &SlowestRank::headline);
  std::vector<HeadlinePart> parts;
  for (std::size_t p = 0; p <= phases.size(); ++p) {
    const double middle_two = repetitions[(n - 1) / 2].parts[p] + repetitions[n / 2].parts[p];
    double sum = 0;
    for (const SlowestRank& repetition : repetitions) sum += repetition.parts[p];
    parts.push_back({.of_median = middle_two / 2, .of_mean = sum / static_cast<double>(n)});
  }
  return parts;
}

LatencyBandwidth fit_latency_bandwidth(const std::vector<TimedSize>& points) {
  const auto bad = [](const TimedSize& p) { return !(p.seconds > 0); };
  const auto same = [&](const TimedSize& p) { return p.bytes == points.front().bytes; };
  if (std::ranges::any_of(points, bad) || std::ranges::all_of(points, same)) return {nan, nan, nan};
  // Minimise the sum of ((a + b x - t) / t)^2 over a, b >= 0.
  double w = 0;
  double x = 0;
  double xx = 0;
  double t = 0;
  double xt = 0;
  for (const auto& [bytes, seconds] : points) {
    const double weight = 1 / (seconds * seconds);
    w += weight;
    x += weight * bytes;
    xx += weight * bytes * bytes;
    t += weight * seconds;
    xt += weight * bytes * seconds;
  }
  const double determinant = w * xx - x * x;
  double a = (t * xx - x * xt) / determinant;
  double b = (w * xt - x * t) / determinant;
  if (b < 0) {
    a = t / w;
    b = 0;
  } else if (a < 0) {
    a = 0;
    b = xt / xx;
  }
  LatencyBandwidth fit{.latency = a,
                       .bandwidth = b > 0 ? 1 / b : std::numeric_limits<double>::infinity()};
  for (const auto& [bytes, seconds] : points) {
    fit.worst_error = std::max(fit.worst_error, std::abs(a + b * bytes - seconds) / seconds);
  }
  return fit;
}

}  // namespace paceline
