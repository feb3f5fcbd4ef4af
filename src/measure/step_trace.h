#pragma once
// StepTrace: the activities of a rank's device in each of several steps.

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
};

// Assigns a trace to steps. Activities that began within `before` or after the last step are
// dropped.
[[nodiscard]] StepTrace by_step(Trace trace, const std::deque<ScopePath>& scopes,
                                const std::vector<HostInterval>& before,
                                const std::vector<HostInterval>& steps);

}  // namespace paceline
