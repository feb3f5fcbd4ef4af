#pragma once
// EventProfiler: every operation timed by events around it on its stream. On the CPU, whose events
// are the host's clock, it sees all there is; on a GPU it stands in for CUPTI, sees nothing of
// graphs, and takes the time between an operation's kernels as theirs.

#include <string>
#include <vector>

#include "core/device.h"
#include "core/profiler.h"

namespace paceline {

class EventProfiler final : public Profiler {
 public:
  // reason: why not the device's own profiler; empty where it has none.
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

  [[nodiscard]] int number_of(const Stream* stream);

  Device& device_;
  std::string reason_;
  double base_seconds_ = 0;  // host_seconds() when the base event was reached
  EventPtr base_;
  Recorder recorder_;
};

}  // namespace paceline
