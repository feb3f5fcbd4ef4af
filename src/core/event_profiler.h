#pragma once
// EventProfiler: times every operation with events before and after it on its stream. On the CPU,
// whose events read the host's clock, it sees all work. On a GPU it is the fallback for CUPTI: it
// does not see into graphs, and gaps between the kernels of an operation count as kernel time.

#include <string>
#include <vector>

#include "core/device.h"
#include "core/profiler.h"

namespace paceline {

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

  [[nodiscard]] int number_of(const Stream* stream);

  Device& device_;
  std::string reason_;
  double base_seconds_ = 0;  // host_seconds() when the base event was reached
  EventPtr base_;
  Recorder recorder_;
};

}  // namespace paceline
