#include "measure/headline_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline {

namespace {

// One repetition on its slowest rank.
struct SlowestRank {
  double headline;
  std::vector<double> parts;  // by phase, then the rest
};

SlowestRank slowest_rank_in(std::size_t repetition, const std::vector<const RankSamples*>& phases,
                            const RankSamples& headline) {
  const auto longest = std::max_element(
      headline.begin(), headline.end(),
      [&](const auto& a, const auto& b) { return a.at(repetition) < b.at(repetition); });
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

bool has_nan(const RankSamples& samples) {
  return std::any_of(samples.begin(), samples.end(), [](const std::vector<double>& seconds) {
    return std::any_of(seconds.begin(), seconds.end(), [](double s) { return std::isnan(s); });
  });
}

}  // namespace

std::vector<HeadlinePart> headline_parts(const std::vector<const RankSamples*>& phases,
                                         const RankSamples& headline) {
  const std::size_t n = headline.empty() ? 0 : headline.front().size();
  if (n == 0) return {};
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto phase_has_nan = [](const RankSamples* phase) { return has_nan(*phase); };
  if (has_nan(headline) || std::any_of(phases.begin(), phases.end(), phase_has_nan)) {
    return std::vector<HeadlinePart>(phases.size() + 1, {nan, nan});
  }
  std::vector<SlowestRank> repetitions;
  for (std::size_t i = 0; i < n; ++i) {
    repetitions.push_back(slowest_rank_in(i, phases, headline));
  }
  std::stable_sort(
      repetitions.begin(), repetitions.end(),
      [](const SlowestRank& a, const SlowestRank& b) { return a.headline < b.headline; });
  std::vector<HeadlinePart> parts;
  for (std::size_t p = 0; p <= phases.size(); ++p) {
    const double middle_two = repetitions[(n - 1) / 2].parts[p] + repetitions[n / 2].parts[p];
    double sum = 0;
    for (const SlowestRank& repetition : repetitions) sum += repetition.parts[p];
    parts.push_back({.of_median = middle_two / 2, .of_mean = sum / static_cast<double>(n)});
  }
  return parts;
}

}  // namespace paceline
