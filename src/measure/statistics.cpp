#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace paceline {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

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

// x_k of the sorted values, with k clamped to [1, n].
double order_statistic(const std::vector<double>& x, double k) {
  const double kept = std::clamp(k, 1.0, static_cast<double>(x.size()));
  return x[static_cast<std::size_t>(kept) - 1];
}

}  // namespace

Summary summarize(std::span<const double> values) {
  const bool undefined = values.empty() || std::any_of(values.begin(), values.end(),
                                                       [](double v) { return std::isnan(v); });
  if (undefined) return {nan, nan, nan, nan, nan, nan, nan, nan};

  std::vector<double> x(values.begin(), values.end());
  std::sort(x.begin(), x.end());
  const std::size_t count = x.size();
  const auto n = static_cast<double>(count);

  Summary s;
  s.median = median_of_sorted(x);
  constexpr std::size_t fewest_for_interval = 6;
  const double spread = 1.96 * std::sqrt(n);
  const bool interval = count >= fewest_for_interval;
  s.ci_low = interval ? order_statistic(x, std::ceil((n - spread) / 2)) : nan;
  s.ci_high = interval ? order_statistic(x, std::ceil(1 + (n + spread) / 2)) : nan;
  s.mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  s.std = sample_deviation(x, s.mean);
  s.min = x.front();
  s.max = x.back();
  s.p95 = x[(95 * count + 99) / 100 - 1];  // x_ceil(0.95 n), in integer arithmetic
  return s;
}

double relative_half_width(const Summary& summary) {
  return (summary.ci_high - summary.ci_low) / 2 / summary.median;
}

std::vector<double> max_over_ranks(const std::vector<std::vector<double>>& samples) {
  if (samples.empty()) return {};
  std::vector<double> most = samples.front();
  for (const std::vector<double>& rank : samples) {
    if (rank.size() != most.size()) throw InternalError("ranks have different counts of samples");
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], rank[i]);
  }
  return most;
}

int slowest_rank(const std::vector<std::vector<double>>& samples) {
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

}  // namespace paceline
