#include "harness/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>

#include "core/units.h"
#include "harness/stop_signal.h"
#include "measure/statistics.h"
#include "record/console.h"
#include "record/environment.h"
#include "record/result_file.h"

namespace paceline {

namespace {

std::filesystem::path output_path(const RunOptions& options, const std::string& experiment) {
  if (!options.output.empty()) return options.output;
  std::string time = utc_now();  // 2026-11-21T02:05:31Z
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  return fmt::format("results/{}-{}.h5", experiment, time);
}

// One file holds one experiment.
std::filesystem::path checked_output(const RunOptions& options, const std::string& experiment) {
  std::filesystem::path path = output_path(options, experiment);
  if (options.resume && std::filesystem::is_regular_file(path) &&
      experiment_of(path) != experiment) {
    throw UsageError(fmt::format("--resume: {} is of '{}', not of '{}'; name another --output",
                                 path.string(), experiment_of(path), experiment));
  }
  return path;
}

ResultFile::Existing existing(const RunOptions& run) {
  if (run.resume) return ResultFile::Existing::resume;
  return run.force ? ResultFile::Existing::replace : ResultFile::Existing::refuse;
}

std::string case_name(const Experiment& experiment, const Case& c) {
  std::string name;
  for (const std::string& factor : experiment.naming_factors()) {
    if (!c.has(factor)) continue;
    if (!name.empty()) name += ' ';
    name += to_text(c.at(factor));
  }
  return name;
}

std::string headline(const CaseRecord& record) {
  if (record.status != Status::ok) {
    return short_reason(std::string(name_of(record.status)), record.reason);
  }
  const PhaseSamples& last = record.samples.back();
  const Summary s = summarize(max_over_ranks(last.measured));
  return fmt::format("{} {}", last.phase, seconds_text(s.median));
}

// The sweep on rank 0's side: files and the console; other ranks keep none of it.
class Results {
 public:
  Results(const Experiment& experiment, const RunOptions& options, RunInfo run)
      : experiment_(experiment),
        options_(options),
        run_(std::move(run)),
        file_(checked_output(options, experiment.name()), existing(options)) {}

  // True when a finished case of an earlier run serves.
  [[nodiscard]] bool keep(std::size_t index, const std::string& id) {
    if (!file_.has(id, experiment_.cases().at(index))) return false;
    show(index, file_.row(id));
    return true;
  }

  void add(std::size_t index, const CaseRecord& record) {
    file_.write(record, run_);
    show(index, summary_row(record));
  }
  // "results/model.h5", or nothing when no case is finished.
  [[nodiscard]] std::string finish(const std::vector<std::string>& ids, bool complete) {
    if (rows_.empty()) return {};
    const std::vector<Table> closing = experiment_.closing_tables(rows_);
    file_.merge(ids, complete, closing);
    if (!options_.json) {
      std::vector<Row> rows;
      for (const SummaryRow& row : rows_) rows.push_back(row.columns);
      fmt::print("\n{}{}",
                 console_table(rows, experiment_.naming_factors(), experiment_.shown_columns()),
                 experiment_.notes());
      for (const Table& table : closing) {
        fmt::print("\n{}:\n{}", table.path, columns_text(table.columns));
      }
    }
    if (!options_.json) fmt::print("{}\n", file_.path().string());
    std::fflush(stdout);
    return file_.path().string();
  }

 private:
  void show(std::size_t index, Row row) {
    if (options_.json) fmt::print("{}\n", json_line(row));
    std::fflush(stdout);
    rows_.push_back({index, std::move(row)});
  }

  const Experiment& experiment_;
  const RunOptions& options_;
  RunInfo run_;
  ResultFile file_;
  std::vector<SummaryRow> rows_;
};

// Every case with its predicted FLOPs, bytes and memory.
void print_plan(const Experiment& experiment) {
  const std::vector<Case>& cases = experiment.cases();
  fmt::print("{} case{} of '{}'; of one rank and repetition:\n", cases.size(),
             cases.size() == 1 ? "" : "s", experiment.name());
  std::vector<std::string> names = experiment.naming_factors();
  std::erase_if(names, [&](const std::string& name) {
    return std::none_of(cases.begin(), cases.end(), [&](const Case& c) { return c.has(name); });
  });
  fmt::print("{:>10} {:>12} {:>12}  case ({})\n", "FLOPs", "least bytes", "peak memory",
             fmt::join(names, " "));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Prediction p = experiment.predict(i);
    std::vector<std::string> values;
    for (const std::string& name : names) {
      values.push_back(cases[i].has(name) ? to_text(cases[i].at(name)) : "-");
    }
    fmt::print("{:>10} {:>12} {:>12}  {}\n", count_text(p.flops), bytes_text(p.bytes),
               bytes_text(p.memory_bytes), fmt::join(values, " "));
  }
}

bool stop_asked(World& world) {
  return world.agree(StopSignal::requested() ? Status::stopped : Status::ok) == Status::stopped;
}

}  // namespace

ExitCode run_sweep(Experiment& experiment, World& world, RunInfo run, const RunOptions& options) {
  const bool root = world.rank() == 0;
  const std::vector<Case>& cases = experiment.cases();
  collectively(world, [&] {
    for (std::size_t i = 0; i < cases.size(); ++i) experiment.validate(i);
  });
  if (options.dry_run) {
    if (root) print_plan(experiment);
    return ExitCode::done;
  }
  std::unique_ptr<Results> results;  // rank 0's
  collectively(world, [&] {
    if (root) results = std::make_unique<Results>(experiment, options, std::move(run));
  });

  std::vector<std::string> ids;
  for (const Case& c : cases) ids.push_back(c.id(experiment.naming_factors()));
  Progress progress(root && !options.quiet, static_cast<int>(cases.size()), stderr);
  ExitCode worst = ExitCode::done;
  std::optional<StoppedError> stopped;
  for (std::size_t i = 0; i < cases.size() && !stopped; ++i) {
    const bool kept = root && results->keep(i, ids[i]);
    if (!world.broadcast(kept ? "kept" : "", 0).empty()) continue;
    if (stop_asked(world)) {
      stopped.emplace("stopped by a signal");
      break;
    }
    progress.begin_case(static_cast<int>(i), case_name(experiment, cases[i]));
    world.watch().at(case_name(experiment, cases[i]));
    try {
      CaseRecord record = experiment.run(i, progress);
      record.id = ids[i];
      if (record.status >= Status::diverged) worst = ExitCode::mismatch;
      if (root) progress.end_case(headline(record));
      collectively(world, [&] {
        if (!root) return;
        results->add(i, record);
        experiment.after_saved();
      });
    } catch (const Error& error) {
      if (error.code() != ExitCode::stopped) throw;
      stopped.emplace(error.what());
    }
  }
  world.watch().at("");
  std::string path;
  collectively(world, [&] {
    if (root) path = results->finish(ids, !stopped);
  });
  if (stopped) {
    const std::string where = path.empty()
                                  ? "no case was finished"
                                  : "finished cases are in " + path + "; --resume goes on from it";
    throw StoppedError(fmt::format("{}; {}", stopped->what(), where));
  }
  return worst;
}

}  // namespace paceline
