#include "experiments/plan/work.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"

namespace paceline {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr std::size_t terms = 3;
using Terms = std::array<double, terms>;

Terms terms_of(const Work& work) {
  return {work.flops, work.parameter_bytes, work.activation_bytes};
}

// The normal equations of the terms in `chosen`, solved by elimination; none where they depend on
// each other.
std::optional<Terms> solve(const std::vector<TimedWork>& rows, unsigned chosen) {
  std::array<std::array<double, terms + 1>, terms> a{};
  for (const TimedWork& row : rows) {
    const Terms x = terms_of(row.work);
    for (std::size_t i = 0; i < terms; ++i) {
      for (std::size_t j = 0; j < terms; ++j) a[i][j] += x[i] * x[j] / row.seconds / row.seconds;
      a[i][terms] += x[i] / row.seconds;
    }
  }
  const auto is_chosen = [&](std::size_t i) { return (chosen >> i & 1U) != 0; };
  constexpr double dependent = 1e-12;
  for (std::size_t i = 0; i < terms; ++i) {
    if (!is_chosen(i)) continue;
    const double before = a[i][i];
    for (std::size_t k = 0; k < i; ++k) {
      if (!is_chosen(k)) continue;
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = k; j <= terms; ++j) a[i][j] -= factor * a[k][j];
    }
    if (a[i][i] <= before * dependent) return std::nullopt;
  }
  Terms weights{};
  for (std::size_t i = terms; i-- > 0;) {
    if (!is_chosen(i)) continue;
    double rest = a[i][terms];
    for (std::size_t j = i + 1; j < terms; ++j) rest -= a[i][j] * weights[j];
    weights[i] = rest / a[i][i];
  }
  return weights;
}

double error_of(const std::vector<TimedWork>& rows, const Terms& weights) {
  double sum = 0;
  for (const TimedWork& row : rows) {
    const Terms x = terms_of(row.work);
    double seconds = 0;
    for (std::size_t i = 0; i < terms; ++i) seconds += x[i] * weights[i];
    sum += (seconds / row.seconds - 1) * (seconds / row.seconds - 1);
  }
  return sum;
}

}  // namespace

WorkRates fit_rates(const std::vector<TimedWork>& rows) {
  if (rows.empty()) throw InternalError("rates of no measurement");
  Terms best{};
  double least = infinite;
  constexpr unsigned subsets = 1U << terms;
  for (unsigned chosen = 1; chosen < subsets; ++chosen) {
    const std::optional<Terms> weights = solve(rows, chosen);
    if (!weights || std::any_of(weights->begin(), weights->end(), [](double w) { return w < 0; }))
      continue;
    const double error = error_of(rows, *weights);
    if (error >= least) continue;
    least = error;
    best = *weights;
  }
  const auto rate = [](double weight) { return weight > 0 ? 1 / weight : infinite; };
  return {.flops_per_s = rate(best[0]),
          .parameter_bytes_per_s = rate(best[1]),
          .activation_bytes_per_s = rate(best[2])};
}

}  // namespace paceline
