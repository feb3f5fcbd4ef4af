#include "measure/time_series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "measure/statistics.h"

namespace paceline {

namespace {

// Prefix sums of the sorted values and of their squares.
class Sums {
 public:
  explicit Sums(const std::vector<double>& sorted) {
    for (const double x : sorted) {
      sums_.push_back(sums_.back() + x);
      squares_.push_back(squares_.back() + x * x);
    }
  }
  [[nodiscard]] double mean(std::size_t from, std::size_t to) const {
    return (sums_[to] - sums_[from]) / static_cast<double>(to - from);
  }
  // The sum of squared distances from the mean.
  [[nodiscard]] double scatter(std::size_t from, std::size_t to) const {
    const double sum = sums_[to] - sums_[from];
    const double squares = squares_[to] - squares_[from];
    return std::max(0.0, squares - sum * sum / static_cast<double>(to - from));
  }

 private:
  std::vector<double> sums_ = {0};
  std::vector<double> squares_ = {0};
};

}  // namespace

double mann_kendall(std::span<const double> values) {
  if (values.size() < 2) return 0;
  int rising = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      rising += static_cast<int>(values[j] > values[i]) - static_cast<int>(values[j] < values[i]);
    }
  }
  const int continuous = rising - static_cast<int>(rising > 0) + static_cast<int>(rising < 0);
  const auto n = static_cast<double>(values.size());
  return continuous / std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
}

double drift(std::span<const double> values) {
  const std::size_t half = values.size() / 2;
  if (half == 0) return 0;
  return summarize(values.last(half)).median / summarize(values.first(half)).median - 1;
}

bool has_trend(std::span<const double> values, const TrendTest& test) {
  return std::abs(mann_kendall(values)) > test.z && std::abs(drift(values)) > test.least;
}

bool is_steady(std::span<const double> seconds) {
  constexpr std::size_t fewest = 10;
  constexpr double least_seconds = 2;
  std::size_t count = 0;
  double sum = 0;
  while (count < seconds.size() && (count < fewest || sum < least_seconds)) {
    ++count;
    sum += seconds[seconds.size() - count];
  }
  return count >= fewest && sum >= least_seconds && !has_trend(seconds.last(count), {});
}

std::optional<TwoModes> two_modes(std::span<const double> values) {
  constexpr std::size_t fewest = 20;
  constexpr std::size_t least_part = 5;  // each group holds at least a fifth of the values
  constexpr double least_separation = 7;
  constexpr double least_difference = 0.02;
  const std::size_t n = values.size();
  if (n < fewest) return std::nullopt;
  std::vector<double> x(values.begin(), values.end());
  if (std::any_of(x.begin(), x.end(), [](double v) { return std::isnan(v); })) return std::nullopt;
  std::sort(x.begin(), x.end());
  const Sums sums(x);
  std::size_t split = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t k = 1; k < n; ++k) {
    const double scatter = sums.scatter(0, k) + sums.scatter(k, n);
    if (scatter >= least) continue;
    least = scatter;
    split = k;
  }
  if (least_part * std::min(split, n - split) < n) return std::nullopt;
  const double variance = sums.scatter(0, split) / static_cast<double>(split) +
                          sums.scatter(split, n) / static_cast<double>(n - split);
  const double apart = sums.mean(split, n) - sums.mean(0, split);
  if (std::sqrt(2.0) * apart <= least_separation * std::sqrt(variance)) return std::nullopt;

  const std::span<const double> sorted(x);
  const double low = summarize(sorted.first(split)).median;
  const double high = summarize(sorted.subspan(split)).median;
  if (high / low - 1 <= least_difference) return std::nullopt;
  return TwoModes{.low = low, .high = high, .low_count = split};
}

}  // namespace paceline
