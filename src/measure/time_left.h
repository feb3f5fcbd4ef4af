#pragma once
// How long a sweep will still take, estimated from what its cases have taken so far.

#include <cstddef>
#include <optional>
#include <vector>

#include "measure/fit.h"

namespace paceline {

// A case takes its set-up, as long as those before on average, and its repetitions: what they have
// taken so far times what is left of them, and for cases to come latency + work / rate, fitted to
// those that have run.
class TimeLeft {
 public:
  // work: of a repetition of each case, in any unit; 0: another case's repetitions serve it. Where
  // one is unknown (NaN) all count alike.
  explicit TimeLeft(std::vector<double> work);

  void begin_case(std::size_t index, double now);  // seconds, on any clock
  void begin_repetitions(double now);
  void repetitions_done(double fraction, double now);  // of the case, 0 to 1
  void end_case(double now);

  // Seconds; nothing before the first repetition.
  [[nodiscard]] std::optional<double> seconds(double now) const;

 private:
  // All repetitions of the case at hand; nothing before the first.
  [[nodiscard]] std::optional<double> case_repetitions() const;
  [[nodiscard]] double set_up() const;
  [[nodiscard]] static double repetitions(double work, const std::vector<TimedSize>& measured);

  std::vector<double> work_;
  std::vector<double> set_ups_;      // of cases that have begun their repetitions, seconds
  std::vector<TimedSize> measured_;  // work and seconds of all repetitions of the cases that ended
  std::size_t index_ = 0;
  bool in_case_ = false;
  double case_began_ = 0;
  std::optional<double> repetitions_began_;
  double fraction_ = 0;
  double repetitions_took_ = 0;  // so far
};

}  // namespace paceline
