#pragma once
// Profiler: the activities of a device, attributed to the scopes that launched them.

#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/device.h"
#include "core/enum_names.h"
#include "core/non_copyable.h"
#include "core/scope.h"

namespace paceline {

// launch: a host call that started kernels, copies or memsets; call: any other host call.
enum class ActivityKind : std::uint8_t { kernel, copy, memset, launch, call };
constexpr auto names_of(ActivityKind) {
  return names("kernel", "copy", "memset", "launch", "call");
}

struct Activity {
  ActivityKind kind = ActivityKind::kernel;
  int name = 0;     // index into Trace::names
  int stream = -1;  // the device's stream number; -1: the host
  int span = -1;    // index into Trace::spans: the innermost at launch or capture; -1: none
  std::int64_t correlation = 0;  // equal for a launch and the activities that it started
  double begin = 0;              // host_seconds()
  double end = 0;
  double bytes = 0;         // of a copy or memset
  std::int64_t blocks = 0;  // of the kernel's grid
};

// One execution of a scope, from its entry to its end on the host.
struct ScopeSpan {
  ScopeId scope = 0;
  int outer = -1;          // the span around it
  bool operation = false;  // false: a region
  OpWork work;
  double begin = 0;  // host_seconds()
  double end = 0;
};

struct Trace {
  std::vector<Activity> activities;
  std::vector<ScopeSpan> spans;
  std::vector<std::string> names;
  std::int64_t lost = 0;  // activities that the profiler dropped
  std::string source;     // "cupti", "events"
  std::string reason;     // why the device's own profiler was not used; empty: it was
};

class Profiler : NonCopyable {
 public:
  virtual ~Profiler() = default;

  // Whether it attributes a graph's work to the scopes in which the work was captured. This
  // requires that the graph is captured after the profiler has started.
  [[nodiscard]] virtual bool sees_into_graphs() const { return false; }
  // Waits for the device and ends profiling.
  [[nodiscard]] virtual Trace finish() = 0;
};

// Records the spans of a stack's scopes from construction to destruction.
class SpanRecorder : public ScopeListener {
 public:
  explicit SpanRecorder(ScopeStack& scopes) : scopes_(scopes) { scopes.set_listener(this); }
  ~SpanRecorder() override { scopes_.set_listener(nullptr); }

  void entered(ScopeId scope, const OpWork* work) override {
    const double now = host_seconds();
    spans_.push_back({.scope = scope,
                      .outer = current(),
                      .operation = work != nullptr,
                      .work = work == nullptr ? OpWork{} : *work,
                      .begin = now,
                      .end = now});
    open_.push_back(static_cast<int>(spans_.size()) - 1);
  }
  void left() override {
    if (open_.empty()) return;  // the scope was entered before recording began
    spans_[static_cast<std::size_t>(open_.back())].end = host_seconds();
    open_.pop_back();
  }

  [[nodiscard]] int current() const { return open_.empty() ? -1 : open_.back(); }
  [[nodiscard]] std::vector<ScopeSpan>& spans() { return spans_; }

 private:
  ScopeStack& scopes_;
  std::vector<ScopeSpan> spans_;
  std::vector<int> open_;
};

// Times every operation with events before and after it on its stream. On the CPU, whose events
// read the host's clock, it sees all work. On a GPU it is the fallback for CUPTI: it does not see
// into graphs, and gaps between the kernels of an operation count as kernel time.
class EventProfiler final : public Profiler {
 public:
  // reason: why the device's own profiler is not used; empty if the device has none.
  explicit EventProfiler(Device& device, std::string reason = {});

  [[nodiscard]] Trace finish() override;

 private:
  struct Timed {
    int span;
    Stream* stream;
    EventPtr begin;
    EventPtr end = nullptr;
  };

  class Recorder final : public SpanRecorder {
   public:
    explicit Recorder(Device& device) : SpanRecorder(device.scopes()), device_(device) {}

    void entered(ScopeId scope, const OpWork* work) override;
    void left() override;
    [[nodiscard]] const std::vector<Timed>& operations() const { return operations_; }

   private:
    Device& device_;
    std::vector<Timed> operations_;
  };

  Device& device_;
  std::string reason_;
  double base_seconds_ = 0;  // host_seconds() when the base event was reached
  EventPtr base_;
  Recorder recorder_;
};

}  // namespace paceline
