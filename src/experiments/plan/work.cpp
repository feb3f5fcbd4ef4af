#include "experiments/plan/work.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>

#include "core/error.h"

namespace paceline {

namespace {

constexpr std::size_t terms = 5;
using Terms = std::array<double, terms>;

Terms terms_of(const Work& work) {
  return {work.flops, work.attention_flops, work.parameter_bytes, work.activation_bytes,
          work.blocks};
}

double dot(const Terms& a, const Terms& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Fits the residual of the times, after the contribution of `least` is subtracted, with the terms
// in the bit set `chosen`. Solves the normal equations by elimination; empty if the terms are
// linearly dependent.
std::optional<Terms> solve(const std::vector<TimedWork>& rows, const Terms& least,
                           unsigned chosen) {
  std::array<std::array<double, terms + 1>, terms> a{};
  for (const TimedWork& row : rows) {
    const Terms x = terms_of(row.work);
    const double rest = row.seconds - dot(x, least);
    for (std::size_t i = 0; i < terms; ++i) {
      for (std::size_t j = 0; j < terms; ++j) a[i][j] += x[i] * x[j] / row.seconds / row.seconds;
      a[i][terms] += x[i] * rest / row.seconds / row.seconds;
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
    const double relative = dot(terms_of(row.work), weights) / row.seconds - 1;
    sum += relative * relative;
  }
  return sum;
}

// How many rates the rows determine: one for each kind of work that is timed alone, and one for
// every two rows that mix kinds.
int fitted_rates(const std::vector<TimedWork>& rows) {
  std::size_t mixed = 0;
  std::array<bool, terms> alone{};
  for (const TimedWork& row : rows) {
    const Terms x = terms_of(row.work);
    const auto is_there = [](double term) { return term != 0; };
    if (std::count_if(x.begin(), x.end(), is_there) != 1) {
      ++mixed;
    } else {
      alone.at(std::find_if(x.begin(), x.end(), is_there) - x.begin()) = true;
    }
  }
  const auto kinds = static_cast<std::size_t>(std::count(alone.begin(), alone.end(), true));
  return static_cast<int>(std::max<std::size_t>(1, kinds + mixed / 2));
}

}  // namespace

WorkRates fit_rates(const std::vector<TimedWork>& rows, const WorkRates& most) {
  if (rows.empty()) throw InternalError("fit_rates needs at least one measurement");
  const Terms least = {1 / most.flops_per_s, 1 / most.attention_flops_per_s,
                       1 / most.parameter_bytes_per_s, 1 / most.activation_bytes_per_s,
                       1 / most.blocks_per_s};
  const int fitted = fitted_rates(rows);
  Terms best = least;
  double best_error = error_of(rows, least);
  constexpr unsigned subsets = 1U << terms;
  for (unsigned chosen = 1; chosen < subsets; ++chosen) {
    if (std::popcount(chosen) > fitted) continue;
    std::optional<Terms> weights = solve(rows, least, chosen);
    if (!weights || std::any_of(weights->begin(), weights->end(), [](double w) { return w < 0; }))
      continue;
    for (std::size_t i = 0; i < terms; ++i) (*weights)[i] += least[i];
    const double error = error_of(rows, *weights);
    if (error >= best_error) continue;
    best_error = error;
    best = *weights;
  }
  return {.flops_per_s = 1 / best[0],
          .attention_flops_per_s = 1 / best[1],
          .parameter_bytes_per_s = 1 / best[2],
          .activation_bytes_per_s = 1 / best[3],
          .blocks_per_s = 1 / best[4]};
}

}  // namespace paceline
