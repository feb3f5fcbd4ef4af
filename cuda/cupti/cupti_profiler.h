#pragma once
// CuptiProfiler: kernels, copies, memsets and API calls from CUPTI's activity records. Each is
// attributed to the scope that was open at its launch, or in a graph at the capture of its node.

#include <cupti.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/profiler.h"

namespace paceline {

class CuptiProfiler final : public Profiler {
 public:
  // Throws EnvironmentError if CUPTI cannot be used: another profiler is attached, or the driver
  // forbids it.
  explicit CuptiProfiler(Device& device);
  ~CuptiProfiler() override;

  [[nodiscard]] bool sees_into_graphs() const override { return true; }
  [[nodiscard]] Trace finish() override;

 private:
  // Spans of the host, whose id CUPTI attaches to every call within them.
  class Recorder final : public SpanRecorder {
   public:
    using SpanRecorder::SpanRecorder;

    void entered(ScopeId scope, const OpWork* work) override;
    void left() override;
  };

  struct Launched {  // executed by the device, from its records
    Activity activity;
    std::uint64_t graph_node = 0;
    std::uint32_t graph = 0;
  };

  static void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records);
  static void take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t size, std::size_t valid);
  static void on_callback(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                          const void* data);

  void take(const CUpti_Activity& record);
  template <class Record>
  Activity& add_launched(const Record& record, ActivityKind kind, const char* name);
  void add_call(const CUpti_ActivityAPI& call, CUpti_CallbackDomain domain);
  void node_created(CUgraphNode node);
  void node_cloned(CUgraphNode node, CUgraphNode original);
  void node_destroyed(CUgraphNode node);
  [[nodiscard]] int name_of_text(const char* text);
  [[nodiscard]] int name_of_call(CUpti_CallbackDomain domain, CUpti_CallbackId id);
  [[nodiscard]] bool is_captured(const Activity& call) const;
  [[nodiscard]] std::int64_t missing_kernels() const;
  void detach() noexcept;

  Device& device_;
  Recorder recorder_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::unordered_map<std::uint64_t, int> span_of_node_;
  std::uint64_t last_created_ = 0;  // node
  std::vector<double> creations_;   // of nodes: host_seconds()
  std::mutex mutex_;  // guards the members below: CUPTI delivers records on its own thread
  std::vector<Launched> launched_;
  std::vector<Activity> calls_;
  std::unordered_map<std::uint32_t, int> span_of_call_;  // by correlation
  std::vector<std::string> names_;
  std::unordered_map<const void*, int> name_of_text_;
  std::unordered_map<std::uint64_t, int> name_of_call_;
  std::size_t dropped_ = 0;
};

}  // namespace paceline
