#include "harness/case_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include "core/units.h"
#include "harness/conditions.h"
#include "harness/early_end.h"
#include "harness/gather.h"

namespace paceline {

namespace {

// Collective.
void add_samples(CaseRecord& record, World& world, const Samples& samples, const CaseRun& run) {
  const std::vector<std::string> parts = run.parts();
  record.warmup_reason = samples.warmup_reason;
  record.stop_reason = samples.stop_reason;
  for (std::size_t p = 0; p < samples.phases.size(); ++p) {
    record.samples.push_back(
        {.phase = samples.phases[p],
         .warmup = gather_values(world, samples.warmup.seconds[p]),
         .measured = gather_values(world, samples.measured.seconds[p]),
         .is_part = std::find(parts.begin(), parts.end(), samples.phases[p]) != parts.end()});
  }
}

// Shows "warm-up 2/5", then "step 3/10".
std::function<void(bool warmup, int done, int total)> shown_on(Progress& progress,
                                                               const SamplerConfig& config) {
  progress.update(config.warmup > 0 ? "warm-up" : "steps");
  return [&progress, config](bool warmup, int done, int total) {
    progress.update(fmt::format("{} {}/{}", warmup ? "warm-up" : "step", done, total),
                    fraction_done(config, warmup, done, total));
  };
}

struct Oversized : std::exception {
  explicit Oversized(std::size_t bytes) : limit(bytes) {}
  std::size_t limit;  // bytes that the device has
};

// Refuses a case predicted to need far more memory than the device has: a trial may take minutes.
void refuse_oversized(const Device& device, double needed) {
  constexpr double far_more = 10;  // times the memory; below, a trial shows which part does not fit
  const std::size_t limit = device.info().memory_bytes;
  if (needed > far_more * static_cast<double>(limit)) throw Oversized(limit);
}

// "about 75.5 MB are needed, 40.0 MB are available: 8 B H T d e + 2 B H T^2 e = 8.39 MB + 67.1 MB"
// available: bytes, if known.
std::string needed_text(const Prediction& predicted, std::optional<std::size_t> available) {
  std::string text = fmt::format("about {} are needed", bytes_text(predicted.needed_bytes()));
  if (available) text += fmt::format(", {} are available", bytes_text(*available));
  if (!predicted.memory_formula.empty()) text += ": " + predicted.memory_formula;
  if (predicted.flush_bytes == 0) return text;
  return text + fmt::format("{} {} to flush the cache",
                            predicted.memory_formula.empty() ? ", with" : ", and",
                            bytes_text(predicted.flush_bytes));
}

// Begins with the prediction if that, too, exceeds what is available: then nothing else is at
// fault.
std::string oom_reason(const Prediction& predicted, const std::string& failure,
                       std::optional<std::size_t> available) {
  const double needed = predicted.needed_bytes();
  if (needed == 0) return failure;
  if (!available || needed > static_cast<double>(*available)) {
    return needed_text(predicted, available) + "; " + failure;
  }
  return failure + "; " + needed_text(predicted, {});
}

}  // namespace

CaseRecord measure_case(World& world, Device& device, CaseRun& run, const SamplerConfig& sampling,
                        const Prediction& predicted, Progress& progress) {
  device.trim();  // memory of the previous case
  const Conditions conditions(device);
  CaseRecord refused;
  const auto set_up = [&] {
    refuse_oversized(device, predicted.needed_bytes());
    run.set_up(progress);
  };
  const auto start = [&] {
    device.freeze();
    run.start();
  };
  if (!fits_in_memory(world, refused, predicted, set_up) ||
      !fits_in_memory(world, refused, predicted, [&] { run.agree(); }) ||
      !fits_in_memory(world, refused, predicted, [&] { run.connect(); }) ||
      !fits_in_memory(world, refused, predicted, start)) {
    return refused;
  }
  Repetitions from_cold = run.cold_repetitions();
  Samples samples = take_samples(world, sampling, run.phases(),
                                 {.repetition = [&] { return run.repetition(); },
                                  .stop_requested = StopSignal::requested,
                                  .progress = shown_on(progress, sampling)});
  const std::size_t warmups = samples.warmup.count();
  from_cold.append(samples.warmup);
  samples.warmup = std::move(from_cold);
  CaseRecord record;
  add_samples(record, world, samples, run);
  conditions.add_to(record, world, samples);
  run.add_to(record);
  if (sampling.profile > 0) add_profile(record, world, device, run, sampling.profile, progress);
  if (world.rank() == 0) {
    for (Warning& warning : timing_warnings(record, world, device.info())) {
      record.warnings.push_back(std::move(warning));
    }
  }
  run.add_repetitions(record, warmups, warmups + samples.measured.count());
  record.status = world.agree(record.status);
  return record;
}

std::optional<CaseRecord> skipped_case(World& world, const std::string& reason) {
  CaseRecord record;
  record.status = world.agree(reason.empty() ? Status::ok : Status::skipped);
  if (record.status == Status::ok) return std::nullopt;
  const std::string of_another = first_text(world, reason);
  record.reason = reason.empty() ? of_another : reason;
  return record;
}

bool fits_in_memory(World& world, CaseRecord& record, const Prediction& predicted,
                    const std::function<void()>& work, WaitLimit wait_limit) {
  std::string refusal;
  std::optional<Error> failed;
  try {
    work();
  } catch (const Oversized& error) {
    refusal = needed_text(predicted, error.limit);
  } catch (const OutOfMemory& error) {
    refusal = oom_reason(predicted, error.what(), error.limit);
  } catch (const std::bad_alloc&) {
    refusal = oom_reason(predicted, "the host's own memory does not suffice", {});
  } catch (const Error& error) {
    // These errors may occur on one rank while the others wait for it, so they end the launch.
    if (error.code() == ExitCode::internal || error.code() == ExitCode::collective) throw;
    failed.emplace(error);
  }
  if (wait_limit == WaitLimit::none) world.wait_idle();
  std::optional<WatchdogScope> watchdog_scope;
  if (!refusal.empty()) {
    // Other ranks may wait in a collective that this rank could not start. The scope's text is then
    // the reason that the timeout message gives.
    watchdog_scope.emplace(world.watchdog(), "reporting out of memory", WaitFor::ranks);
  }
  collectively(world, [&] {
    if (failed) throw *failed;
  });
  record.status = world.agree(refusal.empty() ? Status::ok : Status::oom);
  if (record.status == Status::ok) return true;
  if (predicted.memory_bytes > 0) record.add("predicted_peak_bytes", predicted.memory_bytes);
  record.reason = first_text(world, refusal);
  return false;
}

void warm_up_allocator(Device& device, const std::string& what, const std::function<void()>& step) {
  constexpr int most = 5;
  const MemoryLedger& ledger = device.ledger();
  (void)device.reserved_unchanged();  // the first step itself proves nothing
  int steps = 0;
  do {
    if (steps++ == most) {
      throw OutOfMemory(ledger.peak() - ledger.bytes(), ledger, device.info().memory_bytes, what);
    }
    step();
  } while (!device.reserved_unchanged());
}

}  // namespace paceline
