// run_sweep() of experiment.h.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/screen.h"
#include "core/units.h"
#include "harness/early_end.h"
#include "harness/experiment.h"
#include "harness/launch.h"
#include "harness/sweep_results.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// The predicted work of a repetition of each case: FLOPs, or bytes if there are none. NaN if
// neither is known.
std::vector<double> predicted_work(const Experiment& experiment) {
  std::vector<double> work;
  for (std::size_t i = 0; i < experiment.cases().size(); ++i) {
    const Prediction p = experiment.predict(i);
    const double predicted = p.flops > 0 ? p.flops : p.bytes;
    work.push_back(predicted > 0 ? predicted : std::nan(""));
  }
  return work;
}

std::string headline(const CaseRecord& record) {
  if (record.status != Status::ok) {
    return short_reason(std::string(name_of(record.status)), record.reason);
  }
  if (record.samples.empty()) return "done";
  const PhaseSamples& last = record.samples.back();
  const Summary s = summarize(max_over_ranks(last.measured));
  return fmt::format("{} {}", last.phase, seconds_text(s.median));
}

constexpr std::string_view same_files = "give every rank the same program and the same files";

// --dry-run --json.
void print_predictions_as_json(const Experiment& experiment) {
  const std::vector<Case>& cases = experiment.cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Row row{{"case", cases[i].id(experiment.naming_factors())}};
    for (const auto& [name, value] : cases[i].factors()) row.push_back({name, value});
    const Prediction p = experiment.predict(i);
    row.insert(row.end(), {{"predicted_flops", p.flops},
                           {"predicted_bytes", p.bytes},
                           {"predicted_peak_bytes", p.memory_bytes},
                           {"reason", experiment.cannot_run(i)}});
    write_out("{}\n", json_line(row));
  }
}

// --dry-run: every case with its predicted cost, and why it cannot run here.
void print_predictions(const Experiment& experiment) {
  const std::vector<Case>& cases = experiment.cases();
  double flush = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    flush = std::max(flush, experiment.predict(i).flush_bytes);
  }
  write_out("{} case{} of '{}'; per rank and repetition{}:\n", cases.size(),
            cases.size() == 1 ? "" : "s", experiment.name(),
            flush == 0 ? "" : fmt::format(", without {} to flush the cache", bytes_text(flush)));
  std::vector<std::string> names = experiment.naming_factors();
  std::erase_if(names, [&](const std::string& name) {
    return std::none_of(cases.begin(), cases.end(), [&](const Case& c) { return c.has(name); });
  });
  write_out("{:>10} {:>12} {:>12}  case ({})\n", "FLOPs", "least bytes", "peak memory",
            fmt::join(names, " "));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Prediction p = experiment.predict(i);
    std::vector<std::string> values;
    for (const std::string& name : names) {
      values.push_back(cases[i].has(name) ? to_text(cases[i].at(name)) : "-");
    }
    const std::string why = experiment.cannot_run(i);
    write_out("{:>10} {:>12} {:>12}  {}{}{}\n", count_text(p.flops), bytes_text(p.bytes),
              bytes_text(p.memory_bytes), fmt::join(values, " "), why.empty() ? "" : "  ", why);
  }
}

// The cases of an experiment, one after the other. Every method is collective.
class Sweep {
 public:
  Sweep(Experiment& experiment, World& world, RunInfo run, const RunOptions& options)
      : experiment_(experiment),
        world_(world),
        names_(display_names(experiment)),
        progress_(is_root() && !options.quiet ? progress_stream() : nullptr,
                  predicted_work(experiment)),
        options_(options) {
    for (const Case& c : experiment.cases()) ids_.push_back(c.id(experiment.naming_factors()));
    on_root(
        [&] { results_ = std::make_unique<SweepResults>(experiment, options, std::move(run)); });
  }

  // Measures what the result file does not have yet, until a signal asks for an early stop.
  void measure() {
    for (std::size_t i = 0; i < ids_.size() && !stopped_; ++i) {
      require_same(world_, "case", names_[i], same_files);
      if (is_done(i)) continue;
      if (stop_asked()) {
        stopped_ = "stopped by a signal";
      } else {
        measure(i);
      }
    }
    world_.watchdog().set_current_case("");
    progress_.clear();
  }

  // Merges the result file. Returns the exit code; throws StoppedError after an early stop.
  [[nodiscard]] ExitCode finish() {
    std::string path;
    on_root([&] { path = results_->finish(ids_, !stopped_); });
    if (stopped_) {
      const std::string where =
          path.empty() ? "no case was finished"
                       : "finished cases are in " + path + "; --resume continues from it";
      throw StoppedError(fmt::format("{}; {}", *stopped_, where));
    }
    if (failures_.empty()) return ExitCode::done;
    const std::string others =
        failures_.size() == 1 ? "" : fmt::format(" (and {} more)", failures_.size() - 1);
    if (is_root()) write_to(stderr, "paceline: {}{}\n", failures_.front(), others);
    return ExitCode::mismatch;
  }

 private:
  [[nodiscard]] bool is_root() const { return world_.rank() == 0; }
  // Runs work() on rank 0. Its error is thrown on every rank.
  void on_root(const std::function<void()>& work) {
    collectively(world_, [&] {
      if (is_root()) work();
    });
  }

  // Whether the result file has the case.
  [[nodiscard]] bool is_done(std::size_t i) {
    bool kept = false;
    on_root([&] { kept = results_->keep(i, ids_[i]); });
    return !world_.broadcast(kept ? "kept" : "", 0).empty();
  }

  [[nodiscard]] bool stop_asked() {
    return world_.agree(StopSignal::requested() ? Status::stopped : Status::ok) == Status::stopped;
  }

  void measure(std::size_t i) {
    progress_.begin_case(i, names_[i]);
    world_.watchdog().set_current_case(names_[i]);
    CaseRecord record;
    stopping_early([&] { record = experiment_.run(i, progress_); });
    if (stopped_) return;
    record.id = ids_[i];
    if (record.status >= Status::diverged) {
      failures_.push_back(
          fmt::format("'{}': {}: {}", names_[i], name_of(record.status), record.reason));
    }
    if (is_root()) progress_.end_case(headline(record));
    if (options_.json) progress_.clear();
    // If the file cannot be written, the run ends without a merge: finished cases keep their own
    // files.
    on_root([&] { results_->add(i, record); });
    stopping_early([&] { on_root([&] { experiment_.after_saved(); }); });
  }

  // Runs work(). A StoppedError ends the sweep early; other errors are thrown.
  void stopping_early(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != ExitCode::stopped) throw;
      stopped_ = error.what();
    }
  }

  Experiment& experiment_;
  World& world_;
  std::vector<std::string> ids_;
  std::vector<std::string> names_;
  Progress progress_;
  const RunOptions& options_;
  std::unique_ptr<SweepResults> results_;  // rank 0's
  std::vector<std::string> failures_;      // of cases that diverged or failed a check
  std::optional<std::string> stopped_;     // why the sweep ends early
};

}  // namespace

ExitCode run_sweep(Experiment& experiment, World& world, RunInfo run, const RunOptions& options) {
  const std::size_t count = experiment.cases().size();
  collectively(world, [&] {
    for (std::size_t i = 0; i < count; ++i) experiment.validate(i);
  });
  require_same(world, "number of cases", std::to_string(count), same_files);
  if (options.dry_run) {
    if (world.rank() == 0) {
      options.json ? print_predictions_as_json(experiment) : print_predictions(experiment);
    }
    return ExitCode::done;
  }
  Sweep sweep(experiment, world, std::move(run), options);
  sweep.measure();
  return sweep.finish();
}

}  // namespace paceline
