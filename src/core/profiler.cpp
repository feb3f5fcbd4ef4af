#include "core/profiler.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "core/clock.h"

namespace paceline {

void EventProfiler::Recorder::entered(ScopeId scope, const OpWork* work) {
  const int outer = current();
  SpanRecorder::entered(scope, work);
  const bool within_operation = outer >= 0 && spans()[static_cast<std::size_t>(outer)].operation;
  if (work == nullptr || within_operation) return;
  Stream& stream = work->stream == nullptr ? device_.compute_stream() : *work->stream;
  operations_.push_back({.span = current(), .stream = &stream, .begin = stream.record()});
}

void EventProfiler::Recorder::left() {
  if (!operations_.empty() && operations_.back().span == current()) {
    operations_.back().end = operations_.back().stream->record();
  }
  SpanRecorder::left();
}

EventProfiler::EventProfiler(Device& device, std::string reason)
    : device_(device), reason_(std::move(reason)), recorder_(device) {
  device.synchronize();
  // Times are relative to an event whose host time is known: the one of several attempts that the
  // host observed with the least delay. On busy cores that delay may be milliseconds.
  constexpr int attempts = 8;
  double soonest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < attempts; ++i) {
    const double began = host_seconds();
    EventPtr event = device.compute_stream().record();
    event->synchronize();
    const double ended = host_seconds();
    if (ended - began >= soonest) continue;
    soonest = ended - began;
    base_ = std::move(event);
    base_seconds_ = ended;
  }
}

Trace EventProfiler::finish() {
  device_.synchronize();
  Trace trace{.source = "events", .reason = reason_};
  trace.spans = std::move(recorder_.spans());
  const std::array<const Stream*, 4> streams = {
      &device_.compute_stream(), &device_.communication_stream(), &device_.gather_stream(),
      &device_.optimizer_stream()};
  std::map<std::string, int> names;
  for (const Timed& timed : recorder_.operations()) {
    const ScopeSpan& span = trace.spans[static_cast<std::size_t>(timed.span)];
    const std::string& name = device_.scopes().paths()[span.scope].name;
    const auto [known, is_new] = names.emplace(name, static_cast<int>(trace.names.size()));
    if (is_new) trace.names.push_back(name);
    trace.activities.push_back(
        {.kind = ActivityKind::kernel,
         .name = known->second,
         .stream = static_cast<int>(std::ranges::find(streams, timed.stream) - streams.begin()),
         .span = timed.span,
         .begin = base_seconds_ + timed.begin->seconds_since(*base_),
         .end = base_seconds_ + timed.end->seconds_since(*base_)});
  }
  return trace;
}

}  // namespace paceline
