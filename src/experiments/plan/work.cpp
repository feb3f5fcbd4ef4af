#include "experiments/plan/work.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"

namespace paceline {

namespace {

constexpr std::size_t terms = 8;
using Terms = std::array<double, terms>;
// The first of the terms are the FLOPs of products with weights, by shape; the last is heads.
constexpr std::size_t weight_shapes = 3;

Terms terms_of(const Work& work) {
  return {work.projection_flops, work.feed_forward_flops, work.head_flops, work.attention_flops,
          work.parameter_bytes,  work.activation_bytes,   work.blocks,     work.heads};
}

Terms terms_of(const WorkRates& rates) {
  return {1 / rates.projection_flops_per_s, 1 / rates.feed_forward_flops_per_s,
          1 / rates.head_flops_per_s,       1 / rates.attention_flops_per_s,
          1 / rates.parameter_bytes_per_s,  1 / rates.activation_bytes_per_s,
          1 / rates.blocks_per_s,           1 / rates.heads_per_s};
}

WorkRates rates_of(const Terms& seconds) {
  return {.projection_flops_per_s = 1 / seconds[0],
          .feed_forward_flops_per_s = 1 / seconds[1],
          .head_flops_per_s = 1 / seconds[2],
          .attention_flops_per_s = 1 / seconds[3],
          .parameter_bytes_per_s = 1 / seconds[4],
          .activation_bytes_per_s = 1 / seconds[5],
          .blocks_per_s = 1 / seconds[6],
          .heads_per_s = 1 / seconds[7]};
}

struct TimedTerms {
  Terms x{};
  double seconds = 0;

  // The only kind of work; empty if there are several.
  [[nodiscard]] std::optional<std::size_t> alone() const {
    const auto is_there = [](double term) { return term != 0; };
    if (std::count_if(x.begin(), x.end(), is_there) != 1) return std::nullopt;
    return std::find_if(x.begin(), x.end(), is_there) - x.begin();
  }
};

double dot(const Terms& a, const Terms& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Fits the residual of the times, after the contribution of `least` is subtracted, with the terms
// in the bit set `chosen`. Solves the normal equations by elimination; empty if the terms are
// linearly dependent.
std::optional<Terms> solve(const std::vector<TimedTerms>& rows, const Terms& least,
                           unsigned chosen) {
  std::array<std::array<double, terms + 1>, terms> a{};
  for (const auto& [x, seconds] : rows) {
    const double rest = seconds - dot(x, least);
    for (std::size_t i = 0; i < terms; ++i) {
      for (std::size_t j = 0; j < terms; ++j) a[i][j] += x[i] * x[j] / seconds / seconds;
      a[i][terms] += x[i] * rest / seconds / seconds;
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

double error_of(const std::vector<TimedTerms>& rows, const Terms& weights) {
  double sum = 0;
  for (const TimedTerms& row : rows) {
    const double relative = dot(row.x, weights) / row.seconds - 1;
    sum += relative * relative;
  }
  return sum;
}

// How many rates the rows determine: one for each kind of work that is timed alone, and one for
// every two rows that mix kinds.
int fitted_rates(const std::vector<TimedTerms>& rows) {
  std::size_t mixed = 0;
  std::set<std::size_t> alone;
  for (const TimedTerms& row : rows) {
    if (const auto kind = row.alone()) {
      alone.insert(*kind);
    } else {
      ++mixed;
    }
  }
  return static_cast<int>(std::max<std::size_t>(1, alone.size() + mixed / 2));
}

// Adds the FLOPs of all products with weights to those of the first shape.
void merge_weight_shapes(std::vector<TimedTerms>& rows) {
  for (TimedTerms& row : rows) {
    for (std::size_t i = 1; i < weight_shapes; ++i) row.x[0] += std::exchange(row.x.at(i), 0);
  }
}

// The largest ratio between rows of `part` over `whole`, of rows that have both.
double spread(const std::vector<TimedWork>& rows, double Work::*part, double Work::*whole) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const auto& [work, _] : rows) {
    if (work.*part == 0 || work.*whole == 0) continue;
    least = std::min(least, work.*part / work.*whole);
    most = std::max(most, work.*part / work.*whole);
  }
  return most / least;
}

// Whether the rows separate the time per head from the time of its T x T products (contexts differ
// fourfold) and from the time per block (heads per block differ fourfold).
bool tell_heads(const std::vector<TimedWork>& rows) {
  constexpr double fourfold = 4;
  return spread(rows, &Work::attention_flops, &Work::heads) >= fourfold * fourfold &&
         spread(rows, &Work::heads, &Work::blocks) >= fourfold;
}

}  // namespace

WorkRates fit_rates(const std::vector<TimedWork>& times, const WorkRates& most) {
  if (times.empty()) throw InternalError("fit_rates needs at least one measurement");
  std::vector<TimedTerms> rows;
  for (const TimedWork& timed : times) rows.push_back({terms_of(timed.work), timed.seconds});
  const bool tells_shapes = std::any_of(rows.begin(), rows.end(), [](const TimedTerms& row) {
    const auto kind = row.alone();
    return kind && *kind < weight_shapes;
  });
  if (!tells_shapes) merge_weight_shapes(rows);
  const Terms least = terms_of(most);
  const int fitted = fitted_rates(rows);
  Terms best = least;
  double best_error = error_of(rows, least);
  const unsigned subsets = 1U << (tell_heads(times) ? terms : terms - 1);
  for (unsigned chosen = 1; chosen < subsets; ++chosen) {
    if (std::popcount(chosen) > fitted) continue;
    std::optional<Terms> weights = solve(rows, least, chosen);
    if (!weights || std::any_of(weights->begin(), weights->end(), [](double w) { return w < 0; }))
      continue;
    for (std::size_t i = 0; i < terms; ++i) (*weights)[i] += least[i];
    const double error = error_of(rows, *weights);
    // Of fits whose errors differ only by rounding, the first is kept.
    constexpr double rounding = 1e-18;
    if (error + rounding >= best_error) continue;
    best_error = error;
    best = *weights;
  }
  if (!tells_shapes) std::fill_n(best.begin(), weight_shapes, best[0]);
  return rates_of(best);
}

}  // namespace paceline
