#include "harness/profiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>

#include "core/profiler.h"
#include "harness/clock_offsets.h"
#include "harness/gather.h"
#include "harness/profile_tables.h"
#include "harness/stop_signal.h"
#include "measure/profile.h"

namespace paceline {

namespace {

// Collective. `steps` repetitions, after one that is discarded.
Samples take_steps(World& world, CaseRun& run, int steps, const std::string& what,
                   Progress& progress, std::vector<PhaseSeconds>* events = nullptr) {
  const auto repetition = [&] {
    PhaseSeconds seconds = run.repetition();
    if (events == nullptr) return seconds;
    const PhaseSeconds timed = run.event_seconds();
    events->push_back(timed.empty() ? seconds : timed);
    return seconds;
  };
  const auto report = [&](bool warmup, int done, int total) {
    if (!warmup) progress.update(fmt::format("{} {}/{}", what, done, total));
  };
  return take_samples(world, {.warmup = 1, .steps = steps}, run.phases(),
                      {repetition, StopSignal::requested, report});
}

std::string joined(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void read_text(const std::string& text, std::string& to) { to = text; }
void read_text(const std::string& text, double& to) { to = std::stod(text); }
void read_text(const std::string& text, bool& to) { to = text == "true"; }

// Collective: the lists of all ranks. `members`: those of T to send; the last is no text.
template <class T, class... Member>
std::vector<std::vector<T>> gather_uses(World& world, const std::vector<T>& mine,
                                        Member T::*... members) {
  std::vector<std::string> lines;
  for (const T& use : mine) (lines.push_back(fmt::format("{}", use.*members)), ...);
  std::vector<std::vector<T>> all;
  for (const std::string& texts : world.gather(joined(lines))) {
    std::vector<T>& uses = all.emplace_back();
    const std::vector<std::string> values = lines_of(texts);
    for (auto value = values.begin(); value != values.end();) {
      T& use = uses.emplace_back();
      (read_text(*value++, use.*members), ...);
    }
  }
  return all;
}

std::vector<StepProfile> gather_profiles(World& world, const StepProfile& mine) {
  using K = KernelUse;
  using S = ScopeUse;
  using P = PhaseUse;
  auto kernels = gather_uses(world, mine.kernels, &K::phase, &K::operation, &K::kernel, &K::calls,
                             &K::seconds, &K::flops, &K::bytes, &K::communicates);
  auto scopes = gather_uses(world, mine.scopes, &S::path, &S::calls, &S::seconds, &S::flops,
                            &S::bytes, &S::is_operation);
  auto phases =
      gather_uses(world, mine.phases, &P::phase, &P::extent, &P::busy, &P::products, &P::kernels);
  std::vector<StepProfile> all;
  for (std::size_t r = 0; r < kernels.size(); ++r) {
    all.push_back({std::move(kernels[r]), std::move(scopes[r]), std::move(phases[r])});
  }
  return all;
}

// Collective: the traces of all ranks, in rank order, on rank 0; empty on other ranks.
std::vector<StepTrace> gather_traces(World& world, const StepTrace& mine) {
  auto activities = gather_values(world, mine.activities);
  auto spans = gather_values(world, mine.spans);
  auto steps = gather_values(world, mine.steps);
  const auto names = world.gather(joined(mine.names));
  const auto paths = world.gather(joined(mine.paths));
  const auto sources = world.gather(joined({std::to_string(mine.lost), mine.source, mine.reason}));
  std::vector<StepTrace> all;
  for (std::size_t r = 0; r < activities.size(); ++r) {
    const std::vector<std::string> source = lines_of(sources[r]);
    all.push_back({.activities = std::move(activities[r]),
                   .spans = std::move(spans[r]),
                   .names = lines_of(names[r]),
                   .paths = lines_of(paths[r]),
                   .steps = std::move(steps[r]),
                   .lost = std::stoll(source.at(0)),
                   .source = source.at(1),
                   .reason = source.size() > 2 ? source[2] : ""});
  }
  return all;
}

// [phase][step], for the phases timed by events.
std::vector<std::vector<double>> by_phase(const std::vector<PhaseSeconds>& steps) {
  std::vector<std::vector<double>> phases(steps.front().size());
  for (const PhaseSeconds& step : steps) {
    for (std::size_t p = 0; p < phases.size(); ++p) phases[p].push_back(step[p]);
  }
  return phases;
}

}  // namespace

void add_profile(CaseRecord& record, World& world, Device& device, CaseRun& run, int steps,
                 Progress& progress) {
  ProfiledCase profiled{.phases = run.phases(), .host_phases = run.host_phases()};
  std::vector<PhaseSeconds> events;
  std::unique_ptr<Profiler> profiler;
  collectively(world, [&] { profiler = device.start_profiler(); });
  const bool captures = world.max(profiler->sees_into_graphs() ? 0 : 1) == 0;
  if (captures) run.capture_again();
  const Samples samples = take_steps(world, run, steps, "profile", progress, &events);
  Trace trace;
  collectively(world, [&] { trace = profiler->finish(); });
  profiler.reset();
  if (captures) run.capture_again();
  const Samples after = take_steps(world, run, steps, "after the profile", progress);
  events.erase(events.begin());  // those of the discarded repetition

  StepTrace mine = by_step(std::move(trace), device.scopes().paths(), samples.warmup.host,
                           samples.measured.host);
  profiled.profiles = gather_profiles(world, profile_of(mine));
  keep_first_steps(mine, steps_in_trace);
  profiled.ranks = gather_traces(world, mine);
  profiled.clocks = clock_offsets(world);
  for (const std::vector<double>& phase : by_phase(events)) {
    profiled.events.push_back(gather_values(world, phase));
  }
  profiled.steps = gather_values(world, samples.measured.seconds.back());
  profiled.steps_after = gather_values(world, after.measured.seconds.back());
  collectively(world, [&] {
    if (world.rank() == 0) add_profile_to(record, profiled);
  });
}

}  // namespace paceline
