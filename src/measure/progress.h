#pragma once
// Progress on rank 0: a line for each finished case, and on a terminal a live line with the stage,
// the time since the start and the time left. Elsewhere, such a line every 10 s within a case.

#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/non_copyable.h"
#include "measure/statistics.h"

namespace paceline {

class Progress : NonCopyable {
 public:
  // No output without a stream (other ranks, --quiet). work: of a repetition of each case, in any
  // unit; 0: the case has none of its own. If any is unknown (NaN), all cases count alike.
  explicit Progress(std::FILE* out = nullptr, std::vector<double> work = {1},
                    double (*clock)() = host_seconds);
  ~Progress();

  void begin_case(std::size_t index, const std::string& name);
  // stage: "rehearsal", "step 3/10". fraction: the completed part of the case's repetitions, which
  // begin with the last stage without one.
  void update(const std::string& stage, double fraction = 0);
  void end_case(const std::string& headline);  // "step 8.12 s", "oom: ..."
  // Clears the live line, so that later output starts at its beginning.
  void clear();

 private:
  void show();
  [[nodiscard]] std::string left_text() const;

  std::FILE* out_;
  std::vector<double> work_;
  double (*clock_)();  // seconds
  double began_;
  double last_shown_;
  bool live_;
  std::mutex mutex_;
  std::size_t index_ = 0;
  std::string name_;
  std::string stage_;  // empty between cases
  double case_began_ = 0;
  double repetitions_began_ = 0;
  double case_seconds_ = 0;          // of the whole case, judged by its repetitions; 0: unknown
  std::vector<TimedSize> finished_;  // work and seconds
  std::jthread ticker_;              // shows the live line anew every second
};

// stderr; the screen where it is a terminal and stderr a pipe, as under mpirun.
[[nodiscard]] std::FILE* progress_stream();

}  // namespace paceline
