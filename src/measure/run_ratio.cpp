#include "measure/run_ratio.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "measure/statistics.h"

namespace paceline {

namespace {

constexpr std::size_t fewest_repetitions = 6;

bool measured(const std::vector<double>& run) {
  return run.size() >= fewest_repetitions &&
         std::all_of(run.begin(), run.end(), [](double s) { return std::isfinite(s) && s > 0; });
}

// The largest k for which 2 P(Binomial(n, 1/2) < k) <= 0.2%: the values below x_k and above
// x_(n+1-k) are left out of the interval.
std::size_t sign_test_k(std::size_t n) {
  constexpr double level = 0.002;
  double term = std::exp2(-static_cast<double>(n));  // P(Binomial = k)
  double below = 0;                                  // P(Binomial < k)
  std::size_t k = 0;
  while (2 * (below + term) <= level) {
    below += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  return k;
}

RunRatio by_sign_test(std::vector<double> ratios, double ratio) {
  std::sort(ratios.begin(), ratios.end());
  const std::size_t k = sign_test_k(ratios.size());
  return {ratio, ratios[k - 1], ratios[ratios.size() - k]};
}

RunRatio by_spread(std::span<const RunPair> pairs, double ratio) {
  std::vector<double> a;
  std::vector<double> b;
  for (const RunPair& pair : pairs) {
    a.insert(a.end(), pair.a.begin(), pair.a.end());
    b.insert(b.end(), pair.b.begin(), pair.b.end());
  }
  const Summary of_a = summarize(a);
  const Summary of_b = summarize(b);
  const double spreads = of_a.max / of_a.min * (of_b.max / of_b.min);
  const double factor = spreads * spreads;
  return {ratio, ratio / factor, ratio * factor};
}

}  // namespace

RunRatio ratio_of_runs(std::span<const RunPair> pairs) {
  std::vector<double> ratios;
  for (const RunPair& pair : pairs) {
    ratios.push_back(summarize(pair.b).median / summarize(pair.a).median);
  }
  const double ratio = summarize(ratios).median;
  const bool all = std::all_of(pairs.begin(), pairs.end(), [](const RunPair& pair) {
    return measured(pair.a) && measured(pair.b);
  });
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (pairs.empty() || !all) return {ratio, nan, nan};
  const bool one_run =
      std::all_of(pairs.begin(), pairs.end(), [](const RunPair& pair) { return pair.a == pair.b; });
  if (one_run) return {1, 1, 1};
  return pairs.size() < pairs_for_sign_test ? by_spread(pairs, ratio)
                                            : by_sign_test(std::move(ratios), ratio);
}

Verdict verdict_of(const RunRatio& ratio, double threshold) {
  const double most = 1 + threshold;
  const double least = 1 / most;
  if (ratio.low > most) return Verdict::slower;
  if (ratio.high < least) return Verdict::faster;
  return ratio.low >= least && ratio.high <= most ? Verdict::same : Verdict::undecided;
}

}  // namespace paceline
