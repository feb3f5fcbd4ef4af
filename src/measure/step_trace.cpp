#include "measure/step_trace.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace paceline {

namespace {

// The step that contains `time`; `captured` before the first step; empty for times to drop.
std::optional<int> step_at(double time, const std::vector<HostInterval>& before,
                           const std::vector<HostInterval>& steps) {
  for (const HostInterval& interval : before) {
    if (time >= interval.begin && time <= interval.end) return std::nullopt;
  }
  const auto after = std::ranges::upper_bound(steps, time, {}, &HostInterval::begin);
  if (after == steps.begin()) return captured;
  const auto step = after - 1;
  if (time > step->end) return std::nullopt;
  return static_cast<int>(step - steps.begin());
}

}  // namespace

StepTrace by_step(Trace trace, const std::deque<ScopePath>& scopes,
                  const std::vector<HostInterval>& before, const std::vector<HostInterval>& steps) {
  StepTrace by_step{.names = std::move(trace.names),
                    .steps = steps,
                    .lost = trace.lost,
                    .source = std::move(trace.source),
                    .reason = std::move(trace.reason)};
  for (const ScopePath& path : scopes) by_step.paths.push_back(path.text);
  std::vector<int> place(trace.spans.size(), -1);  // index of a span in by_step.spans
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    ScopeSpan span = trace.spans[i];
    const std::optional<int> step = step_at(span.begin, before, steps);
    if (!step) continue;
    if (span.outer >= 0) span.outer = place[static_cast<std::size_t>(span.outer)];
    place[i] = static_cast<int>(by_step.spans.size());
    by_step.spans.push_back({span, *step});
  }
  for (Activity activity : trace.activities) {
    const std::optional<int> step = step_at(activity.begin, before, steps);
    if (!step || *step == captured) continue;
    if (activity.span >= 0) activity.span = place[static_cast<std::size_t>(activity.span)];
    by_step.activities.push_back({activity, *step});
  }
  return by_step;
}

}  // namespace paceline
