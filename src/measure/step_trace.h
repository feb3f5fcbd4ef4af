#pragma once
// StepTrace: the activities of a rank's device in each of several steps, and intervals of time.

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
  int step = 0;  // `captured` for a capture before the steps
};
inline constexpr int captured = -1;

struct StepTrace {
  std::vector<StepActivity> activities;
  std::vector<StepSpan> spans;
  std::vector<std::string> names;  // by Activity::name
  std::vector<std::string> paths;  // of scopes, by ScopeId
  std::vector<HostInterval> steps;
  std::int64_t lost = 0;
  std::string source;  // as Trace::source
  std::string reason;  // as Trace::reason

  [[nodiscard]] const std::string& path_of(const StepActivity& activity) const {
    return paths[activity.span < 0 ? 0 : spans[static_cast<std::size_t>(activity.span)].scope];
  }
  // Whether the activity is a kernel of a collective.
  [[nodiscard]] bool communicates(const StepActivity& activity) const;
};

// Assigns a trace to steps. Activities that began within `before` or after the last step are
// dropped.
[[nodiscard]] StepTrace by_step(Trace trace, const std::deque<ScopePath>& scopes,
                                const std::vector<HostInterval>& before,
                                const std::vector<HostInterval>& steps);

// Keeps the first `count` steps.
void keep_first_steps(StepTrace& trace, int count);

// The fraction of the time of all ranks' collective kernels in which a kernel of another kind runs
// on another stream of the same rank. NaN without collectives.
[[nodiscard]] double communication_overlap(const std::vector<StepTrace>& ranks);

struct Interval {
  double begin = 0;
  double end = 0;
};

// The union as disjoint intervals, sorted.
[[nodiscard]] std::vector<Interval> union_of(std::vector<Interval> intervals);
// The sum of the lengths.
[[nodiscard]] double length_of(const std::vector<Interval>& intervals);
// The length of `intervals` that is covered by the union of `by`.
[[nodiscard]] double covered_length(const std::vector<Interval>& intervals,
                                    const std::vector<Interval>& by);

}  // namespace paceline
