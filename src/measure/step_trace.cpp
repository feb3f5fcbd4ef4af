#include "measure/step_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
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

bool StepTrace::communicates(const StepActivity& activity) const {
  if (activity.kind != ActivityKind::kernel) return false;
  if (source == "cupti") {
    const std::string& name = names[static_cast<std::size_t>(activity.name)];
    return name.starts_with("nccl") || name.starts_with("void nccl");
  }
  return activity.span >= 0 && spans[static_cast<std::size_t>(activity.span)].work.elements > 0;
}

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

void keep_first_steps(StepTrace& trace, int count) {
  const auto is_later = [count](const auto& row) { return row.step >= count; };
  std::erase_if(trace.activities, is_later);
  std::erase_if(trace.spans, is_later);  // spans are sorted: indices of the others do not change
  if (trace.steps.size() > static_cast<std::size_t>(count)) {
    trace.steps.resize(static_cast<std::size_t>(count));
  }
}

double communication_overlap(const std::vector<StepTrace>& ranks) {
  double total = 0;
  double hidden = 0;
  for (const StepTrace& rank : ranks) {
    std::map<int, std::vector<Interval>> collectives;  // by stream
    std::map<int, std::vector<Interval>> others;
    for (const StepActivity& activity : rank.activities) {
      if (activity.kind != ActivityKind::kernel) continue;
      auto& streams = rank.communicates(activity) ? collectives : others;
      streams[activity.stream].push_back({activity.begin, activity.end});
    }
    for (const auto& [stream, intervals] : collectives) {
      std::vector<Interval> beside;
      for (const auto& [other, compute] : others) {
        if (other != stream) beside.insert(beside.end(), compute.begin(), compute.end());
      }
      total += length_of(intervals);
      hidden += covered_length(intervals, beside);
    }
  }
  return total > 0 ? hidden / total : std::numeric_limits<double>::quiet_NaN();
}

std::vector<Interval> union_of(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> disjoint;
  for (const Interval& interval : intervals) {
    if (disjoint.empty() || interval.begin > disjoint.back().end) {
      disjoint.push_back(interval);
    } else {
      disjoint.back().end = std::max(disjoint.back().end, interval.end);
    }
  }
  return disjoint;
}

double length_of(const std::vector<Interval>& intervals) {
  double length = 0;
  for (const Interval& interval : intervals) length += interval.end - interval.begin;
  return length;
}

double covered_length(const std::vector<Interval>& intervals, const std::vector<Interval>& by) {
  const std::vector<Interval> cover = union_of(by);
  double covered = 0;
  for (const Interval& interval : intervals) {
    auto next = std::partition_point(cover.begin(), cover.end(), [&](const Interval& part) {
      return part.end <= interval.begin;
    });
    for (; next != cover.end() && next->begin < interval.end; ++next) {
      covered += std::min(next->end, interval.end) - std::max(next->begin, interval.begin);
    }
  }
  return covered;
}

}  // namespace paceline
