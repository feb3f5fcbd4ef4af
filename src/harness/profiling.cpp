// add_profile() of case_run.h: repetitions of a case under the device's profiler.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/profiler.h"
#include "harness/case_run.h"
#include "harness/early_end.h"
#include "harness/gather.h"
#include "harness/profile_tables.h"

namespace paceline {

// Without the rows, which are sent as bytes.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepTrace, names, paths, lost, source, reason)

namespace {

using Json = nlohmann::json;

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

// Collective: as gather_values(), in pieces, since a gather takes at most 2 GiB of all ranks.
template <class T>
std::vector<std::vector<T>> gather_many(World& world, const std::vector<T>& mine) {
  constexpr int piece = 1 << 16;
  const auto count = static_cast<int>(mine.size());
  std::vector<std::vector<T>> all;
  for (int begin = 0; begin == 0 || world.max(count > begin ? 1 : 0) > 0; begin += piece) {
    const auto at = [&](int i) { return mine.begin() + std::min(i, count); };
    auto parts = gather_values(world, std::vector<T>(at(begin), at(begin + piece)));
    if (begin == 0) all.resize(parts.size());
    for (std::size_t r = 0; r < parts.size(); ++r) {
      all[r].insert(all[r].end(), parts[r].begin(), parts[r].end());
    }
  }
  return all;
}

// Collective: the traces of all ranks, in rank order, on rank 0; empty on other ranks.
std::vector<StepTrace> gather_traces(World& world, const StepTrace& mine) {
  auto activities = gather_many(world, mine.activities);
  auto spans = gather_many(world, mine.spans);
  auto steps = gather_values(world, mine.steps);
  // A name that was cut may not be UTF-8.
  const std::string text = Json(mine).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<StepTrace> all;
  for (const std::string& one : world.gather(text)) all.push_back(Json::parse(one));
  for (std::size_t r = 0; r < all.size(); ++r) {
    all[r].activities = std::move(activities[r]);
    all[r].spans = std::move(spans[r]);
    all[r].steps = std::move(steps[r]);
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

  const StepTrace mine = by_step(std::move(trace), device.scopes().paths(), samples.warmup.host,
                                 samples.measured.host);
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
