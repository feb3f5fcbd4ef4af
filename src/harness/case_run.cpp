#include "harness/case_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>

#include "core/units.h"
#include "harness/conditions.h"
#include "harness/doubts.h"
#include "harness/gather.h"
#include "harness/stop_signal.h"

namespace paceline {

namespace {

// Collective.
void add_samples(CaseRecord& record, World& world, const Samples& samples, const CaseRun& run,
                 const std::vector<PhaseSeconds>& cold) {
  const std::vector<std::string> parts = run.parts();
  record.warmup_reason = samples.warmup_reason;
  record.stop_reason = samples.stop_reason;
  for (std::size_t p = 0; p < samples.phases.size(); ++p) {
    std::vector<double> warmup;
    for (const PhaseSeconds& repetition : cold) warmup.push_back(repetition.at(p));
    const std::vector<double>& warm = samples.warmup.seconds[p];
    warmup.insert(warmup.end(), warm.begin(), warm.end());
    record.samples.push_back(
        {.phase = samples.phases[p],
         .warmup = gather_values(world, warmup),
         .measured = gather_values(world, samples.measured.seconds[p]),
         .is_part = std::find(parts.begin(), parts.end(), samples.phases[p]) != parts.end()});
  }
}

}  // namespace

CaseRecord measure_case(World& world, Device& device, CaseRun& run, const SamplerConfig& sampling,
                        double predicted, Progress& progress) {
  device.trim();  // what the case before has left
  CaseRecord record;
  if (!fits_in_memory(world, record, predicted, [&] { run.set_up(progress); }) ||
      !fits_in_memory(world, record, predicted, [&] { run.agree(); }) ||
      !fits_in_memory(world, record, predicted, [&] { run.connect(); })) {
    record.add("predicted_peak_bytes", predicted);
    return record;
  }
  device.freeze();
  run.start();
  const SamplerHooks hooks{.repetition = [&] { return run.repetition(); },
                           .stop_requested = StopSignal::requested,
                           .progress = shown_on(progress, sampling)};
  const Conditions conditions(device);
  const Samples samples = take_samples(world, sampling, run.phases(), hooks);
  const std::vector<PhaseSeconds> cold = run.cold_repetitions();
  add_samples(record, world, samples, run, cold);
  conditions.add_to(record, world, samples, cold.size());
  run.add_to(record);
  if (world.rank() == 0) record.warnings = doubts_of(record, world, device.info());
  record.status = world.agree(record.status);
  return record;
}

bool fits_in_memory(World& world, CaseRecord& record, double predicted,
                    const std::function<void()>& work, Patience patience) {
  std::string refusal;
  std::optional<Error> failed;
  try {
    work();
  } catch (const OutOfMemory& error) {
    refusal = error.what();
  } catch (const std::bad_alloc&) {
    refusal = "the host's own memory does not suffice";
  } catch (const Error& error) {
    failed.emplace(error);
  }
  if (patience == Patience::idle) world.wait_idle();
  collectively(world, [&] {
    if (failed) throw *failed;
  });
  record.status = world.agree(refusal.empty() ? Status::ok : Status::oom);
  if (record.status == Status::ok) return true;
  record.reason = first_text(world, refusal);
  if (predicted > 0) {
    record.reason = fmt::format("about {} are needed; {}", bytes_text(predicted), record.reason);
  }
  return false;
}

void repeat_until_settled(Device& device, const std::string& what,
                          const std::function<void()>& step) {
  constexpr int most = 5;
  const MemoryLedger& ledger = device.ledger();
  (void)device.settled();  // the first step itself shows nothing
  int steps = 0;
  do {
    if (steps++ == most) {
      throw OutOfMemory(ledger.peak() - ledger.bytes(), ledger, device.info().memory_bytes, what);
    }
    step();
  } while (!device.settled());
}

}  // namespace paceline
