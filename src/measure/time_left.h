#pragma once
// Estimates the remaining time of a sweep from the times of its cases so far.

#include <cstddef>
#include <optional>
#include <vector>

#include "measure/fit.h"

namespace paceline {

// The time of a case is its set-up plus its repetitions. Set-up: the mean of the set-ups so far.
// Repetitions of the current case: extrapolated from the completed fraction. Repetitions of later
// cases: latency + work / rate, fitted to the cases that have run.
class TimeLeft {
 public:
  // work: of a repetition of each case, in any unit; 0: the case reuses another case's repetitions.
  // If any is unknown (NaN), all cases count equally.
  explicit TimeLeft(std::vector<double> work);

  void begin_case(std::size_t index, double now);  // now: seconds, on any clock
  void begin_repetitions(double now);
  void repetitions_done(double fraction, double now);  // fraction of the case, 0 to 1
  void end_case();

  // Seconds left; empty before the first repetition.
  [[nodiscard]] std::optional<double> seconds(double now) const;

 private:
  // Seconds of all repetitions of the current case; empty before the first.
  [[nodiscard]] std::optional<double> case_repetitions() const;
  [[nodiscard]] double set_up() const;

  std::vector<double> work_;
  std::vector<double> set_ups_;      // seconds, of cases that have begun their repetitions
  std::vector<TimedSize> measured_;  // of finished cases: work, and seconds of all repetitions
  std::size_t index_ = 0;
  bool in_case_ = false;
  double case_began_ = 0;
  std::optional<double> repetitions_began_;
  double fraction_ = 0;
  double repetitions_took_ = 0;  // so far
};

}  // namespace paceline
