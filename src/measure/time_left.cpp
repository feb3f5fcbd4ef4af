#include "measure/time_left.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace paceline {

namespace {

// Of cases whose work is all the same: the mean rate.
LatencyBandwidth fitted(const std::vector<TimedSize>& measured) {
  const LatencyBandwidth fit = fit_latency_bandwidth(measured);
  if (!std::isnan(fit.latency)) return fit;
  double seconds = 0;
  double done = 0;
  for (const TimedSize& m : measured) {
    seconds += m.seconds;
    done += m.bytes;
  }
  return {.bandwidth = done / seconds};
}

}  // namespace

TimeLeft::TimeLeft(std::vector<double> work) : work_(std::move(work)) {
  const auto is_known = [](double w) { return std::isfinite(w) && w >= 0; };
  if (!std::all_of(work_.begin(), work_.end(), is_known)) work_.assign(work_.size(), 1);
}

void TimeLeft::begin_case(std::size_t index, double now) {
  index_ = index;
  in_case_ = true;
  case_began_ = now;
  repetitions_began_.reset();
  fraction_ = 0;
}

void TimeLeft::begin_repetitions(double now) {
  set_ups_.push_back(now - case_began_);
  repetitions_began_ = now;
}

void TimeLeft::repetitions_done(double fraction, double now) {
  if (!repetitions_began_) return;
  fraction_ = std::clamp(fraction, 0.0, 1.0);
  repetitions_took_ = now - *repetitions_began_;
}

void TimeLeft::end_case() {
  if (fraction_ > 0) measured_.push_back({work_.at(index_), repetitions_took_});
  in_case_ = false;
}

std::optional<double> TimeLeft::case_repetitions() const {
  if (!in_case_ || fraction_ <= 0) return std::nullopt;
  return repetitions_took_ / fraction_;
}

double TimeLeft::set_up() const {
  const double sum = std::accumulate(set_ups_.begin(), set_ups_.end(), 0.0);
  return set_ups_.empty() ? 0 : sum / static_cast<double>(set_ups_.size());
}

std::optional<double> TimeLeft::seconds(double now) const {
  std::vector<TimedSize> measured = measured_;
  const std::optional<double> of_case = case_repetitions();
  if (of_case) measured.push_back({work_.at(index_), *of_case});
  if (measured.empty()) return std::nullopt;
  const double set_up = this->set_up();
  const LatencyBandwidth fit = fitted(measured);
  const auto repetitions = [&](double work) { return fit.latency + work / fit.bandwidth; };
  double left = 0;
  if (of_case) {
    left = *of_case - repetitions_took_;
  } else if (in_case_) {
    left = std::max(0.0, set_up - (now - case_began_)) + repetitions(work_.at(index_));
  }
  for (std::size_t i = index_ + 1; i < work_.size(); ++i) {
    if (work_[i] > 0) left += set_up + repetitions(work_[i]);
  }
  return left;
}

}  // namespace paceline
