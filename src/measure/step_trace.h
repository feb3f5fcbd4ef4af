#pragma once
// StepTrace: what a rank's device executed in each of several steps.

#include <cstdint>
#include <string>
#include <vector>

#include "core/profiler.h"
#include "measure/sampler.h"

namespace paceline {

struct StepActivity : Activity {
  int step = 0;
};

struct StepSpan : ScopeSpan {
  int step = 0;  // captured: at a capture before the steps
};
inline constexpr int captured = -1;

struct StepTrace {
  std::vector<StepActivity> activities;
  std::vector<StepSpan> spans;
  std::vector<std::string> names;  // of activities
  std::vector<std::string> paths;  // of scopes, by ScopeId
  std::vector<HostInterval> steps;
  std::int64_t lost = 0;
  std::string source;  // as a Trace has it
  std::string reason;  // likewise

  [[nodiscard]] const std::string& path_of(const StepActivity& activity) const {
    return paths[activity.span < 0 ? 0 : spans[static_cast<std::size_t>(activity.span)].scope];
  }
  // Whether it is a collective's kernel.
  [[nodiscard]] bool communicates(const StepActivity& activity) const;
};

// A trace by step. What began within `before`, or after the last step, is left out.
[[nodiscard]] StepTrace by_step(Trace trace, const std::deque<ScopePath>& scopes,
                                const std::vector<HostInterval>& before,
                                const std::vector<HostInterval>& steps);

// Leaves out what belongs to later steps than the first `count`.
void keep_first_steps(StepTrace& trace, int count);

// The share of the time of all ranks' collective kernels during which another kernel runs on
// another stream of the same rank. NaN where nothing is communicated.
[[nodiscard]] double communication_overlap(const std::vector<StepTrace>& ranks);

}  // namespace paceline
