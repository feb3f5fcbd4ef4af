#pragma once
// Progress on rank 0's stderr, with the time left. On a terminal: one line that is rewritten.
// Otherwise: a line at the end of a case, and every 10 s within a case.

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/non_copyable.h"
#include "measure/sampler.h"
#include "measure/terminal.h"
#include "measure/time_left.h"

namespace paceline {

class Progress : NonCopyable {
 public:
  using Clock = double (*)();  // seconds

  // No output if `enabled` is false (other ranks, --quiet). work: see TimeLeft.
  Progress(bool enabled, std::vector<double> work, std::FILE* out, Clock clock = host_seconds);
  Progress(bool enabled, int cases, std::FILE* out, Clock clock = host_seconds);
  ~Progress() { clear(); }

  void begin_case(int index, const std::string& name);  // index from 0
  // Shows the stage before the repetitions: "set-up", "rehearsal".
  void update(const std::string& what);
  void begin_repetitions();
  // what: "warm-up 2/5", "step 3/10". fraction: the completed part of the case's repetitions.
  void repetition(const std::string& what, double fraction);
  // headline: the result, "8.12 s" or "oom: ...".
  void end_case(const std::string& headline);
  // Clears the line on a terminal, so that later output starts at its beginning.
  void clear();

 private:
  void show(const std::string& what);
  [[nodiscard]] std::string line(const std::string& what) const;
  [[nodiscard]] std::string left_text() const;
  void rewrite(const std::string& line);

  bool enabled_;
  std::size_t cases_;
  int index_ = 0;
  std::string name_;
  std::FILE* out_;
  Terminal terminal_;
  Clock clock_;
  TimeLeft left_;
  double case_began_ = 0;
  double last_shown_ = 0;
  bool line_shown_ = false;  // on the terminal
};

// The completed part of a case's repetitions, warm-up included: 0 to 1. total: the expected number
// of warm-up or measured repetitions.
[[nodiscard]] double fraction_done(const SamplerConfig& config, bool warmup, int done, int total);

// A SamplerHooks::progress that shows "warm-up 2/5", then "step 3/10". The call begins the
// repetitions. `progress` outlives the result.
[[nodiscard]] std::function<void(bool warmup, int done, int total)> shown_on(
    Progress& progress, const SamplerConfig& config);

// 75 -> "1 m 15 s"; 3725 -> "1 h 2 m"; 4.2 -> "4 s".
[[nodiscard]] std::string duration_text(double seconds);
// Three significant digits and a suitable unit: 8.123 -> "8.12 s", 0.0031 -> "3.10 ms".
[[nodiscard]] std::string seconds_text(double seconds);

}  // namespace paceline
