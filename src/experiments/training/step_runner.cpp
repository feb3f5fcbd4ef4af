#include "experiments/training/step_runner.h"

#include "core/clock.h"
#include "harness/case_run.h"

namespace paceline {

namespace {

// The name of the memory mark at the end of this phase; empty if there is none.
std::string_view mark_after(const StepPhase& phase, const std::vector<StepPhase>& phases) {
  const bool ends = &phase == &phases.back() || (&phase + 1)->memory != phase.memory;
  if (!ends || phase.memory == "optimizer") return "";
  return phase.memory == "forward" ? "before backward" : "before optimizer";
}

}  // namespace

void add_communication_times(PhaseSeconds& seconds, const std::vector<Exchange>& exchanges,
                             const std::vector<Wait>& waits) {
  constexpr std::size_t exposed = 2;  // after forward and backward
  for (const Wait& wait : waits) {
    seconds.at(exposed) += wait.until->seconds_since(*wait.from);
  }
  double total = 0;
  for (const Exchange& e : exchanges) total += e.end->seconds_since(*e.begin);
  seconds.insert(seconds.end() - 1, total);
}

WaitSeconds wait_seconds(const std::vector<Wait>& waits, const Event& forward_end) {
  WaitSeconds seconds;
  for (const Wait& wait : waits) {
    const bool in_forward = wait.from->seconds_since(forward_end) < 0;
    (in_forward ? seconds.forward : seconds.backward) += wait.until->seconds_since(*wait.from);
  }
  return seconds;
}

void add_host_waits(PhaseSeconds& seconds, const std::vector<HostWait>& waits) {
  std::size_t first = 0;
  for (const HostWait& wait : waits) {
    if (wait.phases == first) continue;
    seconds.at(first) = wait.seconds;
    for (std::size_t i = first + 1; i < wait.phases; ++i) seconds.at(first) -= seconds.at(i);
    first = wait.phases;
  }
}

std::vector<std::string> StepRunner::phases() const {
  std::vector<std::string> names;
  for (const StepPhase& phase : step_.phases()) {
    if (!phase.name.empty()) names.push_back(phase.name);
  }
  if (step_.strategy().communicates()) names.emplace_back("communication_total");
  if (step_.updates_in_backward()) names.emplace_back("optimizer_total");
  names.emplace_back("step");
  return names;
}

void StepRunner::launch(const StepPhase& phase, Recorded& recorded) {
  Device& device = step_.device();
  const std::vector<StepPhase>& phases = step_.phases();
  const bool begins = &phase == &phases.front() || (&phase - 1)->memory != phase.memory;
  if (begins) device.ledger().begin_phase(phase.memory);
  phase.launch();
  if (!phase.name.empty()) recorded.phases.push_back(record_time());
  if (const auto name = mark_after(phase, phases); !name.empty()) mark(name, phase.memory);
  if (&phase != &phases.back()) return;
  recorded.exchanges = step_.strategy().exchanges();
  recorded.waits = step_.strategy().waits();
  recorded.updates = step_.updates();
  mark("after step", phase.memory == "optimizer" ? phase.memory : "");
  marking_.clear();
}

// In a graph, the event is recorded by a kernel; the scope names it in profiles.
EventPtr StepRunner::record_time() {
  const Scope scope(step_.device().scopes(), "timing");
  return step_.device().compute_stream().record();
}

std::vector<double> StepRunner::event_seconds() const {
  const std::vector<EventPtr>& events = last().phases;
  std::vector<double> seconds;
  for (std::size_t i = 1; i < events.size(); ++i) {
    seconds.push_back(events[i]->seconds_since(*events[i - 1]));
  }
  return seconds;
}

void StepRunner::begin_measuring() {
  host_waits_.clear();
  launch_ = 0;
  step_.device().synchronize();
  began_ = host_seconds();
}

template <class Launch>
void StepRunner::launch_timed(const Launch& launch) {
  const double began = host_seconds();
  launch();
  launch_ += host_seconds() - began;
}

void StepRunner::wait_for_phases(std::size_t ended) {
  if (timing_ == Timing::step) return;
  step_.device().synchronize();
  double before = began_;
  for (const HostWait& wait : host_waits_) before += wait.seconds;
  host_waits_.push_back({ended, host_seconds() - before});
}

PhaseSeconds StepRunner::end_measuring() {
  step_.device().synchronize();
  const double total = host_seconds() - began_;
  const std::vector<EventPtr>& events = last().phases;
  if (replayed_ || graphs_.empty()) {
    launches_.push_back(launch_);
    const WaitSeconds waited = wait_seconds(last().waits, *events.at(1));
    waited_in_forward_.push_back(waited.forward);
    waited_in_backward_.push_back(waited.backward);
  }
  PhaseSeconds seconds = event_seconds();
  add_host_waits(seconds, host_waits_);
  seconds.push_back(total);
  if (step_.strategy().communicates()) {
    add_communication_times(seconds, last().exchanges, last().waits);
  }
  if (step_.updates_in_backward()) {
    double updates = 0;
    for (const auto& update : last().updates) {
      if (!update.fused()) updates += update.end->seconds_since(*update.begin);
    }
    seconds.insert(seconds.end() - 1, updates);
  }
  return seconds;
}

PhaseSeconds StepRunner::run() {
  replayed_ = false;
  run_ = {};
  mark("after init");
  begin_measuring();
  run_.phases.push_back(record_time());
  const std::vector<StepPhase>& phases = step_.phases();
  for (std::size_t i = 0; i < phases.size(); ++i) {
    launch_timed([&] { launch(phases[i], run_); });
    const bool goes_on = i + 1 < phases.size() && phases[i + 1].joins;
    if (!phases[i].name.empty() && !goes_on) wait_for_phases(run_.phases.size() - 1);
  }
  return end_measuring();
}

void StepRunner::capture() {
  Device& device = step_.device();
  Stream& stream = device.compute_stream();
  const std::vector<StepPhase>& phases = step_.phases();
  graphs_.clear();
  forget_launches();
  captured_ = {};
  mark("after init");
  for (std::size_t begin = 0; begin < phases.size();) {
    std::size_t end = timing_ == Timing::step ? phases.size() : begin + 1;
    while (end < phases.size() && phases[end].joins) ++end;
    std::unique_ptr<Graph> graph = device.capture(stream, [&] {
      if (begin == 0) captured_.phases.push_back(record_time());
      for (std::size_t i = begin; i < end; ++i) launch(phases[i], captured_);
    });
    begin = end;
    if (graph->nodes().all == 0) continue;
    graph->instantiate();
    graphs_.push_back({std::move(graph), captured_.phases.size() - 1});
  }
  device.synchronize();
}

PhaseSeconds StepRunner::replay() {
  replayed_ = true;
  begin_measuring();
  for (const PhaseGraph& g : graphs_) {
    launch_timed([&] { g.graph->launch(); });
    wait_for_phases(g.phases);
  }
  return end_measuring();
}

GraphNodes StepRunner::nodes() const {
  if (graphs_.empty()) {
    Device& device = step_.device();
    return device.capture(device.compute_stream(), [this] { step_.launch(); })->nodes();
  }
  GraphNodes all;
  for (const PhaseGraph& g : graphs_) {
    const GraphNodes nodes = g.graph->nodes();
    all.all += nodes.all;
    all.kernels += nodes.kernels;
  }
  return all;
}

Repetitions StepRunner::rehearse() {
  mark_memory("first");
  Repetitions steps;
  const auto step = [&] { steps.take([this] { return run(); }); };
  step();
  warm_up_allocator(step_.device(), "a steady step", step);
  forget_launches();
  return steps;
}

void StepRunner::forget_launches() {
  launches_.clear();
  waited_in_forward_.clear();
  waited_in_backward_.clear();
}

WaitSeconds StepRunner::waited() const {
  return {summarize(waited_in_forward_).median, summarize(waited_in_backward_).median};
}

void StepRunner::mark_memory(const std::string& step) {
  step_.device().ledger().reset_peak();
  marking_ = step;
}

void StepRunner::mark(std::string_view name, std::string_view phase) {
  if (marking_.empty()) return;
  const MemoryLedger& ledger = step_.device().ledger();
  MemoryMark m{{.bytes = ledger.bytes(),
                .peak_bytes = ledger.peak(),
                .phase_peak_bytes = ledger.phase_peak()},
               marking_,
               std::string(name),
               std::string(phase)};
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    m.by_kind.at(k) = ledger.bytes(kind);
    m.phase_peak_by_kind.at(k) = ledger.phase_peak(kind);
  }
  marks_.push_back(std::move(m));
  if (marking_ == "first" && name == "before backward") kept_ = ledger.allocations();
}

}  // namespace paceline
