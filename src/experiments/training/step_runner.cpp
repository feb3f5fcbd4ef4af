#include "experiments/training/step_runner.h"

#include "core/clock.h"
#include "harness/case_run.h"

namespace paceline {

namespace {

// What a mark at the end of this phase is called; empty: none stands there.
std::string_view mark_after(const StepPhase& phase, const std::vector<StepPhase>& phases) {
  const bool ends = &phase == &phases.back() || (&phase + 1)->memory != phase.memory;
  if (!ends || phase.memory == "optimizer") return "";
  return phase.memory == "forward" ? "before backward" : "before optimizer";
}

}  // namespace

void add_communication_times(PhaseSeconds& seconds, const std::vector<Exchange>& exchanges,
                             const std::vector<ParameterWait>& waits) {
  constexpr std::size_t exposed = 2;  // after forward and backward
  for (const auto& [from, until] : waits) {
    seconds.at(exposed) += until->seconds_since(*from);
  }
  double total = 0;
  for (const Exchange& e : exchanges) total += e.end->seconds_since(*e.begin);
  seconds.insert(seconds.end() - 1, total);
}

std::vector<std::string> StepRunner::phases() const {
  std::vector<std::string> names;
  for (const StepPhase& phase : step_.phases()) {
    if (!phase.name.empty()) names.push_back(phase.name);
  }
  if (step_.strategy().communicates()) names.emplace_back("communication_total");
  names.emplace_back("step");
  return names;
}

void StepRunner::end_phase() {
  Device& device = step_.device();
  events_.push_back(device.compute_stream().record());
  if (timing_ == Timing::step) return;
  device.synchronize();
  host_.push_back(host_seconds());
}

PhaseSeconds StepRunner::run() {
  Device& device = step_.device();
  const std::vector<StepPhase>& phases = step_.phases();
  host_.clear();
  events_.clear();
  mark("after init");
  device.synchronize();
  const double began = host_seconds();
  end_phase();
  std::string_view memory;
  for (const StepPhase& phase : phases) {
    if (phase.memory != memory) device.ledger().begin_phase(phase.memory);
    memory = phase.memory;
    phase.launch();
    if (!phase.name.empty()) end_phase();
    if (const auto name = mark_after(phase, phases); !name.empty()) mark(name, memory);
  }
  device.synchronize();
  const double total = host_seconds() - began;
  mark("after step", memory == "optimizer" ? memory : "");
  marking_.clear();

  PhaseSeconds seconds;
  for (std::size_t i = 1; i < events_.size(); ++i) {
    seconds.push_back(timing_ == Timing::step ? events_[i]->seconds_since(*events_[i - 1])
                                              : host_[i] - host_[i - 1]);
  }
  seconds.push_back(total);
  const ParallelStrategy& strategy = step_.strategy();
  if (strategy.communicates()) {
    add_communication_times(seconds, strategy.exchanges(), strategy.waits());
  }
  return seconds;
}

PhaseSeconds StepRunner::rehearse() {
  mark_memory("first");
  PhaseSeconds seconds = run();
  repeat_until_settled(step_.device(), "a steady step", [&] { (void)run(); });
  return seconds;
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
  if (marking_ == "first" && name == "before backward") kept_ = ledger.blocks();
}

}  // namespace paceline
