#pragma once
// Progress on rank 0's stderr: on a terminal one line that is rewritten, with the time left;
// otherwise a line when a case ends.

#include <cstdio>
#include <functional>
#include <string>

#include "core/clock.h"
#include "core/non_copyable.h"
#include "measure/sampler.h"

namespace paceline {

class Progress : NonCopyable {
 public:
  using Clock = double (*)();  // seconds

  // Silent when `enabled` is false (other ranks, --quiet).
  Progress(bool enabled, int cases, std::FILE* out, Clock clock = host_seconds);
  ~Progress();  // leaves a terminal's line empty, so that what follows starts at its beginning

  void begin_case(int index, const std::string& name);  // index from 0
  // What the case does now: "set-up", "rehearsal", "warm-up 2/5", "step 3/10". At most 10 a second
  // are shown. `fraction` is the part of the case that is done, 0 to 1.
  void update(const std::string& what, double fraction);
  // `headline`: what the line says of the result: "8.12 s", "oom: ...".
  void end_case(const std::string& headline);

 private:
  void show(const std::string& what, double fraction);
  void rewrite(const std::string& line);

  bool enabled_;
  bool terminal_;
  int cases_;
  int index_ = 0;
  std::string name_;
  std::FILE* out_;
  Clock clock_;
  double began_;
  double case_began_;
  double last_shown_ = 0;
};

// The part of a case's repetitions, those of warm-up among them, that is over: 0 to 1.
[[nodiscard]] double fraction_done(const SamplerConfig& config, bool warmup, int done);

// For SamplerHooks::progress: "warm-up 2/5", then "step 3/10". `progress` outlives it.
[[nodiscard]] std::function<void(bool warmup, int done, int total)> shown_on(
    Progress& progress, const SamplerConfig& config);

// 75 -> "1 m 15 s"; 3725 -> "1 h 2 m"; 4.2 -> "4 s".
[[nodiscard]] std::string duration_text(double seconds);
// Three significant digits with a fitting unit: 8.123 -> "8.12 s", 0.0031 -> "3.10 ms".
[[nodiscard]] std::string seconds_text(double seconds);

}  // namespace paceline
