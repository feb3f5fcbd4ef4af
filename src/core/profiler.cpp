#include "core/profiler.h"

#include "core/clock.h"

namespace paceline {

void SpanRecorder::entered(ScopeId scope, const OpWork* work) {
  const double now = host_seconds();
  spans_.push_back({.scope = scope,
                    .outer = current(),
                    .operation = work != nullptr,
                    .work = work == nullptr ? OpWork{} : *work,
                    .begin = now,
                    .end = now});
  open_.push_back(static_cast<int>(spans_.size()) - 1);
}

void SpanRecorder::left() {
  if (open_.empty()) return;  // the scope was entered before recording began
  spans_[static_cast<std::size_t>(open_.back())].end = host_seconds();
  open_.pop_back();
}

}  // namespace paceline
