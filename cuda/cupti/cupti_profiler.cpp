#include "cuda/cupti/cupti_profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

#include "core/clock.h"
#include "core/error.h"
#include "core/kernel_name.h"

namespace paceline {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{8} << 20U;
constexpr std::array kinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                              CUPTI_ACTIVITY_KIND_MEMCPY,
                              CUPTI_ACTIVITY_KIND_MEMSET,
                              CUPTI_ACTIVITY_KIND_RUNTIME,
                              CUPTI_ACTIVITY_KIND_DRIVER,
                              CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
// The driver calls by which libraries launch; other driver calls are dropped. CUPTI has to record
// all of them: if cuptiActivityEnableDriverApi() enables only these, CUPTI of CUDA 13.0 records
// none of cuBLAS's launches.
constexpr std::array launching_calls = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                                        CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel};
constexpr std::array watched_nodes = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                      CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
                                      CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING};
constexpr auto correlated = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

// CUPTI's buffer callbacks have no user pointer.
std::atomic<CuptiProfiler*> active = nullptr;

void cupti_check(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  throw EnvironmentError(fmt::format("{}: {}", call, text == nullptr ? "failed" : text));
}
#define CUPTI_CHECK(call) cupti_check(call, #call)

// host_seconds() in nanoseconds: the clock set for all of CUPTI's times.
std::uint64_t host_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

double seconds(std::uint64_t nanoseconds) {
  constexpr double per_second = 1e-9;
  return static_cast<double>(nanoseconds) * per_second;
}

}  // namespace

void CuptiProfiler::Recorder::entered(ScopeId scope, const OpWork* work) {
  SpanRecorder::entered(scope, work);
  cuptiActivityPushExternalCorrelationId(correlated, static_cast<std::uint64_t>(current()));
}

void CuptiProfiler::Recorder::left() {
  if (current() >= 0) cuptiActivityPopExternalCorrelationId(correlated, nullptr);
  SpanRecorder::left();
}

CuptiProfiler::CuptiProfiler(Device& device) : device_(device), recorder_(device.scopes()) {
  device.synchronize();
  try {
    CUPTI_CHECK(cuptiSubscribe(&subscriber_, on_callback, this));
    active = this;
    for (const CUpti_CallbackIdResource id : watched_nodes) {
      CUPTI_CHECK(cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id));
    }
    CUPTI_CHECK(cuptiActivityRegisterTimestampCallback(host_nanoseconds));
    CUPTI_CHECK(cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
    for (const CUpti_ActivityKind kind : kinds) CUPTI_CHECK(cuptiActivityEnable(kind));
  } catch (const EnvironmentError&) {
    detach();
    throw;
  }
}

CuptiProfiler::~CuptiProfiler() { detach(); }

void CuptiProfiler::detach() noexcept {
  if (subscriber_ == nullptr) return;
  for (const CUpti_ActivityKind kind : kinds) cuptiActivityDisable(kind);
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  active = nullptr;
  cuptiUnsubscribe(subscriber_);
  subscriber_ = nullptr;
}

void CuptiProfiler::give_buffer(std::uint8_t** buffer, std::size_t* size,
                                std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, buffer_bytes));
  *size = buffer_bytes;
  *max_records = 0;  // as many as fit
}

void CuptiProfiler::take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                                std::size_t /*size*/, std::size_t valid) {
  std::size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
  if (CuptiProfiler* profiler = active) {
    const std::scoped_lock locked(profiler->mutex_);
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
      profiler->take(*record);
    }
    profiler->dropped_ += dropped;
  }
  std::free(buffer);
}

template <class Record>
Activity& CuptiProfiler::add_launched(const Record& record, ActivityKind kind, const char* name) {
  const Activity activity{.kind = kind,
                          .name = name_of_text(name),
                          .stream = static_cast<int>(record.streamId),
                          .correlation = record.correlationId,
                          .begin = seconds(record.start),
                          .end = seconds(record.end)};
  return launched_.emplace_back(activity, record.graphNodeId, record.graphId).activity;
}

void CuptiProfiler::add_call(const CUpti_ActivityAPI& call, CUpti_CallbackDomain domain) {
  calls_.push_back({.kind = ActivityKind::call,
                    .name = name_of_call(domain, call.cbid),
                    .correlation = call.correlationId,
                    .begin = seconds(call.start),
                    .end = seconds(call.end)});
}

void CuptiProfiler::take(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& k = reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      add_launched(k, ActivityKind::kernel, k.name).blocks =
          static_cast<std::int64_t>(k.gridX) * k.gridY * k.gridZ;
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& m = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      add_launched(m, ActivityKind::copy, "copy").bytes = static_cast<double>(m.bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& m = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      add_launched(m, ActivityKind::memset, "memset").bytes = static_cast<double>(m.bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      add_call(reinterpret_cast<const CUpti_ActivityAPI&>(record), CUPTI_CB_DOMAIN_RUNTIME_API);
      break;
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& call = reinterpret_cast<const CUpti_ActivityAPI&>(record);
      const bool launches = std::find(launching_calls.begin(), launching_calls.end(), call.cbid) !=
                            launching_calls.end();
      if (launches) add_call(call, CUPTI_CB_DOMAIN_DRIVER_API);
      break;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& e = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      if (e.externalKind == correlated) {
        span_of_call_[e.correlationId] = static_cast<int>(e.externalId);
      }
      break;
    }
    default: break;
  }
}

void CuptiProfiler::on_callback(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  const auto* resource = static_cast<const CUpti_ResourceData*>(data);
  const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
  auto& profiler = *static_cast<CuptiProfiler*>(self);
  switch (id) {
    case CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED: profiler.node_created(graph->node); break;
    case CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED:
      profiler.node_cloned(graph->node, graph->originalNode);
      break;
    case CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING:
      profiler.node_destroyed(graph->node);
      break;
    default: break;
  }
}

namespace {

std::uint64_t id_of(CUgraphNode node) {
  std::uint64_t id = 0;
  return node != nullptr && cuptiGetGraphNodeId(node, &id) == CUPTI_SUCCESS ? id : 0;
}

}  // namespace

// CUPTI reports each node that an instantiation clones twice, as created and as cloned, in either
// order.
void CuptiProfiler::node_created(CUgraphNode node) {
  last_created_ = id_of(node);
  span_of_node_.emplace(last_created_, recorder_.current());
  creations_.push_back(host_seconds());
}

void CuptiProfiler::node_cloned(CUgraphNode node, CUgraphNode original) {
  const auto of_original = span_of_node_.find(id_of(original));
  if (of_original == span_of_node_.end()) return;
  const int span = of_original->second;
  span_of_node_[id_of(node)] = span;
}

// A node that replaces another (replace_memsets()) was created just before the other is destroyed,
// with no scope open.
void CuptiProfiler::node_destroyed(CUgraphNode node) {
  const auto going = span_of_node_.find(id_of(node));
  if (going == span_of_node_.end()) return;
  const auto created = span_of_node_.find(last_created_);
  if (created != span_of_node_.end() && created->second < 0) created->second = going->second;
  last_created_ = 0;
}

int CuptiProfiler::name_of_text(const char* text) {
  const auto [known, is_new] = name_of_text_.emplace(text, static_cast<int>(names_.size()));
  if (is_new) names_.push_back(demangled(text));
  return known->second;
}

int CuptiProfiler::name_of_call(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  const std::uint64_t key = (static_cast<std::uint64_t>(domain) << 32U) + id;
  const auto [known, is_new] = name_of_call_.emplace(key, static_cast<int>(names_.size()));
  if (is_new) {
    const char* text = nullptr;
    cuptiGetCallbackName(domain, id, &text);
    std::string name = text == nullptr ? "call" : text;
    const std::size_t version = name.rfind("_v");  // "cudaLaunchKernel_v7000"
    if (version != std::string::npos) name.resize(version);
    names_.push_back(std::move(name));
  }
  return known->second;
}

// A launch during a capture creates a graph node and runs nothing.
bool CuptiProfiler::is_captured(const Activity& call) const {
  const auto created = std::lower_bound(creations_.begin(), creations_.end(), call.begin);
  return created != creations_.end() && *created <= call.end;
}

// The number of kernel launches without a kernel record, plus, for every launch of a graph, the
// number of kernels by which it falls short of the graph's launch with the most.
std::int64_t CuptiProfiler::missing_kernels() const {
  std::map<std::uint32_t, std::map<std::int64_t, std::int64_t>> of_graphs;
  std::set<std::int64_t> started;
  for (const Launched& l : launched_) {
    started.insert(l.activity.correlation);
    if (l.graph != 0) ++of_graphs[l.graph][l.activity.correlation];
  }
  std::int64_t missing = 0;
  for (const auto& of_graph : of_graphs) {
    std::int64_t most = 0;
    for (const auto& launch : of_graph.second) most = std::max(most, launch.second);
    for (const auto& launch : of_graph.second) missing += most - launch.second;
  }
  for (const Activity& call : calls_) {
    const std::string& name = names_[static_cast<std::size_t>(call.name)];
    const bool launches = name.starts_with("cudaLaunchKernel") || name.starts_with("cuLaunch") ||
                          name.starts_with("cudaGraphLaunch");
    if (launches && !started.contains(call.correlation) && !is_captured(call)) ++missing;
  }
  return missing;
}

Trace CuptiProfiler::finish() {
  device_.synchronize();
  CUPTI_CHECK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  detach();
  const std::scoped_lock locked(mutex_);
  Trace trace{.source = "cupti"};
  trace.spans = std::move(recorder_.spans());
  std::set<std::int64_t> launching;
  for (Launched& l : launched_) {
    launching.insert(l.activity.correlation);
    const auto node = span_of_node_.find(l.graph_node);
    const auto call = span_of_call_.find(static_cast<std::uint32_t>(l.activity.correlation));
    if (l.graph_node != 0 && node != span_of_node_.end()) {
      l.activity.span = node->second;
    } else if (call != span_of_call_.end()) {
      l.activity.span = call->second;
    }
    trace.activities.push_back(l.activity);
  }
  for (Activity& call : calls_) {
    const auto span = span_of_call_.find(static_cast<std::uint32_t>(call.correlation));
    if (span != span_of_call_.end()) call.span = span->second;
    if (launching.contains(call.correlation)) call.kind = ActivityKind::launch;
    trace.activities.push_back(call);
  }
  trace.lost = static_cast<std::int64_t>(dropped_) + missing_kernels();
  trace.names = std::move(names_);
  return trace;
}

}  // namespace paceline
