#include "measure/trend.h"

#include <cmath>
#include <cstddef>

#include "measure/statistics.h"

namespace paceline {

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

}  // namespace paceline
