#include "harness/case_run.h"

#include "harness/gather.h"
#include "harness/rehearsal.h"
#include "harness/stop_signal.h"

namespace paceline {

namespace {

// Collective.
void add_samples(CaseRecord& record, World& world, const Samples& samples,
                 const std::vector<PhaseSeconds>& cold) {
  record.stop_reason = samples.stop_reason;
  for (std::size_t p = 0; p < samples.phases.size(); ++p) {
    std::vector<double> warmup;
    for (const PhaseSeconds& repetition : cold) warmup.push_back(repetition.at(p));
    warmup.insert(warmup.end(), samples.warmup[p].begin(), samples.warmup[p].end());
    record.samples.push_back({.phase = samples.phases[p],
                              .warmup = gather_doubles(world, warmup),
                              .measured = gather_doubles(world, samples.measured[p])});
  }
}

}  // namespace

CaseRecord measure_case(World& world, Device& device, CaseRun& run, const SamplerConfig& sampling,
                        double predicted, Progress& progress) {
  device.trim();  // what the case before has left
  CaseRecord record;
  if (!fits_in_memory(world, record, predicted, [&] { run.set_up(progress); }) ||
      !fits_in_memory(world, record, predicted, [&] { run.connect(); })) {
    record.add("predicted_peak_bytes", predicted, "bytes");
    return record;
  }
  device.freeze();
  run.start();
  const SamplerHooks hooks{.repetition = [&] { return run.repetition(); },
                           .stop_requested = StopSignal::requested,
                           .progress = shown_on(progress, sampling)};
  const Samples samples = take_samples(world, sampling, run.phases(), hooks);
  add_samples(record, world, samples, run.cold_repetitions());
  run.add_to(record);
  record.status = world.agree(record.status);
  return record;
}

}  // namespace paceline
