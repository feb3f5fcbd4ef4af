#pragma once
// Profiler: what a device executes, attributed to the scopes that launched it.

#include <cstdint>
#include <string>
#include <vector>

#include "core/enum_names.h"
#include "core/non_copyable.h"
#include "core/scope.h"

namespace paceline {

// launch: a call of the host that started one or more of the first three; call: another one.
enum class ActivityKind : std::uint8_t { kernel, copy, memset, launch, call };
constexpr auto names_of(ActivityKind) {
  return names("kernel", "copy", "memset", "launch", "call");
}

struct Activity {
  ActivityKind kind = ActivityKind::kernel;
  int name = 0;     // of Trace::names
  int stream = -1;  // the device's own number of it; -1: the host
  int span = -1;    // of Trace::spans: the innermost at its launch, or at its capture; -1: none
  std::int64_t correlation = 0;  // the same for a launch and what it started
  double begin = 0;              // of host_seconds()
  double end = 0;
  double bytes = 0;         // of a copy or memset
  std::int64_t blocks = 0;  // of a kernel's grid
};

// A scope from its entry to its end on the host.
struct ScopeSpan {
  ScopeId scope = 0;
  int outer = -1;          // the span around it
  bool operation = false;  // else a region
  OpWork work;
  double begin = 0;  // of host_seconds()
  double end = 0;
};

struct Trace {
  std::vector<Activity> activities;
  std::vector<ScopeSpan> spans;
  std::vector<std::string> names;
  std::int64_t lost = 0;  // activities that are known to be missing
  std::string source;     // "cupti", "events"
  std::string reason;     // why not by the device's own profiler; empty: it is
};

class Profiler : NonCopyable {
 public:
  virtual ~Profiler() = default;

  // Whether it attributes a graph's work to the scopes that it was captured in; only of a graph
  // that is captured after the profiler began.
  [[nodiscard]] virtual bool sees_into_graphs() const { return false; }
  // Waits for the device; ends the profiling.
  [[nodiscard]] virtual Trace finish() = 0;
};

// The spans of a stack's scopes, from construction to destruction.
class SpanRecorder : public ScopeListener {
 public:
  explicit SpanRecorder(ScopeStack& scopes) : scopes_(scopes) { scopes.set_listener(this); }
  ~SpanRecorder() override { scopes_.set_listener(nullptr); }

  void entered(ScopeId scope, const OpWork* work) override;
  void left() override;

  [[nodiscard]] int current() const { return open_.empty() ? -1 : open_.back(); }
  [[nodiscard]] std::vector<ScopeSpan>& spans() { return spans_; }

 private:
  ScopeStack& scopes_;
  std::vector<ScopeSpan> spans_;
  std::vector<int> open_;
};

}  // namespace paceline
