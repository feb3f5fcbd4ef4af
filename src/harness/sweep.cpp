#include "harness/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "core/screen.h"
#include "core/units.h"
#include "harness/launch.h"
#include "harness/run_processes.h"
#include "harness/stop_signal.h"
#include "measure/statistics.h"
#include "record/case_file.h"
#include "record/console.h"
#include "record/descriptions.h"
#include "record/environment.h"
#include "record/profile_view.h"
#include "record/result_file.h"

namespace paceline {

namespace {

ResultFile::Existing existing(const RunOptions& run) {
  if (run.resume) return ResultFile::Existing::resume;
  return run.force ? ResultFile::Existing::replace : ResultFile::Existing::refuse;
}

// A name for every case, of the factors that differ between cases: "context 128, sync flat". The
// experiment's name if none differ.
std::vector<std::string> case_names(const Experiment& experiment) {
  std::vector<FactorTexts> factors;
  for (const Case& c : experiment.cases()) {
    FactorTexts& texts = factors.emplace_back();
    for (const std::string& name : experiment.naming_factors()) {
      texts.emplace_back(name, c.has(name) ? to_text(c.at(name)) : "");
    }
  }
  const FactorColumns varying(factors);
  std::vector<std::string> names;
  for (const std::vector<std::string>& texts : varying.texts) {
    std::string name;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].empty()) continue;
      name += fmt::format("{}{} {}", name.empty() ? "" : ", ", varying.names[i], texts[i]);
    }
    names.push_back(name.empty() ? experiment.name() : name);
  }
  return names;
}

// The predicted work of a repetition of each case: FLOPs, or bytes if there are none. NaN if
// neither is known, 0 if the case is measured by the run of the previous case.
std::vector<double> predicted_work(const Experiment& experiment) {
  std::vector<double> work;
  for (std::size_t i = 0; i < experiment.cases().size(); ++i) {
    if (i > 0 && experiment.run_of(i) == experiment.run_of(i - 1)) {
      work.push_back(0);
      continue;
    }
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

// "measuring ended by: converged (3 cases), max_steps (1)"; empty if only --steps decided.
std::string stop_reasons(const std::vector<Row>& rows) {
  std::map<std::string, int> counts;
  for (const Row& row : rows) {
    const Cell* reason = find_column(row, "stop_reason");
    if (reason != nullptr && reason->value != Value(std::string()))
      ++counts[to_text(reason->value)];
  }
  if (counts.empty() || (counts.size() == 1 && counts.count("steps") == 1)) return "";
  std::vector<std::string> parts;
  for (const auto& [reason, count] : counts) {
    parts.push_back(fmt::format("{} ({} {})", reason, count, count == 1 ? "case" : "cases"));
  }
  return fmt::format("measuring ended by: {}\n", fmt::join(parts, ", "));
}

// The files and the console output of the sweep; only rank 0 has one.
class Results {
 public:
  Results(const Experiment& experiment, const RunOptions& options, RunInfo run)
      : experiment_(experiment),
        options_(options),
        run_(std::move(run)),
        file_(output_path(options, experiment.name()), existing(options), experiment.name()) {
    for (const std::string& damage : file_.damaged()) write_to(stderr, "warning: {}\n", damage);
  }

  // True if the file has the case with a status that `kept` accepts.
  [[nodiscard]] bool keep(std::size_t index, const std::string& id, ResultFile::Kept kept) {
    if (!file_.has(id, experiment_.cases().at(index), kept)) return false;
    show(index, file_.row(id));
    add_profile(index, file_.tables(id, shown_tables));
    return true;
  }

  void add(std::size_t index, const CaseRecord& record) {
    file_.write(record, run_);
    show(index, summary_row(record, run_));
    add_profile(index, record.tables);
  }
  // "results/model.h5", or empty if no case is finished.
  [[nodiscard]] std::string finish(const std::vector<std::string>& ids, bool complete) {
    if (rows_.empty()) return {};
    std::vector<Table> closing = experiment_.closing_tables(rows_);
    for (Table& table : closing) describe(table.path, experiment_.factor_notes(), table.columns);
    file_.merge(ids, complete, closing);
    for (Table& table : profile_answers(columns_of_rows())) {  // merge() has written these as well
      describe(table.path, experiment_.factor_notes(), table.columns);
      closing.push_back(std::move(table));
    }
    if (!options_.json) print(closing);
    std::fflush(stdout);
    return file_.path().string();
  }

  // Throws an error with code usage, or `worst` if that is worse, if --columns names a column that
  // no row has.
  void require_columns(ExitCode worst) const {
    const std::string unknown = unknown_columns(columns_of_rows(), options_.table.columns);
    if (rows_.empty() || unknown.empty()) return;
    throw Error(std::max(worst, ExitCode::usage),
                fmt::format("--columns: {}; the results are in {}, and --resume shows them again",
                            unknown, file_.path().string()));
  }

 private:
  struct Profile {
    std::size_t index;  // of the case
    std::vector<Table> tables;
    std::string remark;
  };

  void add_profile(std::size_t index, const std::vector<Table>& tables) {
    std::vector<Table> shown = largest_parts(tables);
    if (!shown.empty()) profiles_.push_back({index, std::move(shown), profile_remark(tables)});
  }

  [[nodiscard]] std::vector<Row> columns_of_rows() const {
    std::vector<Row> rows;
    for (const SummaryRow& row : rows_) rows.push_back(row.columns);
    return rows;
  }

  void print(const std::vector<Table>& closing) const {
    const std::vector<Row> rows = columns_of_rows();
    const TableOptions& shown = options_.table;
    const std::vector<std::string>& factors = experiment_.naming_factors();
    if (shown.format == TableFormat::csv) {
      write_out("{}", console_table(rows, factors, experiment_.shown_columns(), shown));
      if (!options_.quiet) write_to(stderr, "{}\n", file_.path().string());
      return;
    }
    const bool markdown = shown.format == TableFormat::md;
    for (const std::vector<Row>& part : parts_of(rows)) {
      write_out("\n{}{}", console_table(part, factors, experiment_.shown_columns(), shown),
                markdown ? "\n" : "");
    }
    if (shown.columns.empty() && !ok_rows(rows).empty()) {
      const std::string times = times_note(ok_rows(rows), shown);
      write_out("{}\n", wrapped(times + (times.empty() ? "" : " ") + experiment_.notes()));
    }
    for (const Table& t : closing) {
      write_out("\n{}:\n{}{}", t.path, markdown ? "\n" : "",
                closing_table(t, rows, factors, shown.format));
    }
    print_profiles(markdown);
    write_out("{}{}{}\n", markdown ? "\n" : "", remarks(rows), file_.path().string());
  }

  void print_profiles(bool markdown) const {
    const std::vector<std::string> names = case_names(experiment_);
    for (const auto& [index, tables, remark] : profiles_) {
      for (const Table& table : tables) {
        write_out("\n{} of {}:\n{}{}", table.path, names.at(index), markdown ? "\n" : "",
                  closing_table(table, {}, {}, options_.table.format));
      }
      if (!remark.empty()) write_out("{}\n", wrapped(remark));
    }
  }

  // Rows grouped by the value of the factor that splits the console table, in the order of the
  // cases.
  [[nodiscard]] std::vector<std::vector<Row>> parts_of(const std::vector<Row>& rows) const {
    const std::string factor = experiment_.splitting_factor();
    if (factor.empty()) return {rows};
    std::vector<std::vector<Row>> parts;
    for (const Row& row : rows) {
      const auto same = [&](const std::vector<Row>& part) {
        return find_column(part.front(), factor)->value == find_column(row, factor)->value;
      };
      const auto part = std::find_if(parts.begin(), parts.end(), same);
      part == parts.end() ? parts.push_back({row}) : part->push_back(row);
    }
    return parts;
  }

  void show(std::size_t index, Row row) {
    if (options_.json) write_out("{}\n", json_line(row));
    std::fflush(stdout);
    rows_.push_back({index, std::move(row)});
  }

  // The text below the table: why measuring ended, and warnings.
  [[nodiscard]] std::string remarks(const std::vector<Row>& rows) const {
    const std::vector<std::string> names = case_names(experiment_);
    std::vector<std::pair<std::string, std::string>> warned;
    for (const SummaryRow& row : rows_) {
      const Cell* kinds = find_column(row.columns, "warnings");
      warned.emplace_back(names.at(row.index), kinds == nullptr ? "" : to_text(kinds->value));
    }
    return stop_reasons(rows) + warning_lines(warned);
  }

  const Experiment& experiment_;
  const RunOptions& options_;
  RunInfo run_;
  ResultFile file_;
  std::vector<SummaryRow> rows_;
  std::vector<Profile> profiles_;
};

// --dry-run --json: a line for each case.
void print_plan_as_json(const Experiment& experiment) {
  const std::vector<Case>& cases = experiment.cases();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Row row{{"case", cases[i].id(experiment.naming_factors())}};
    for (const auto& [name, value] : cases[i].factors()) row.push_back({name, value});
    const Prediction p = experiment.predict(i);
    row.push_back({"predicted_flops", p.flops});
    row.push_back({"predicted_bytes", p.bytes});
    row.push_back({"predicted_peak_bytes", p.needed_bytes()});
    row.push_back({"reason", experiment.cannot_run(i)});
    write_out("{}\n", json_line(row));
  }
}

// --dry-run: every case with its predicted FLOPs, bytes and memory, and why it cannot run here.
void print_plan(const Experiment& experiment) {
  const std::vector<Case>& cases = experiment.cases();
  write_out("{} case{} of '{}'; per rank and repetition:\n", cases.size(),
            cases.size() == 1 ? "" : "s", experiment.name());
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
              bytes_text(p.needed_bytes()), fmt::join(values, " "), why.empty() ? "" : "  ", why);
  }
}

// For a sweep that needs a process for each run: the run of this process. Throws UsageError if
// there are runs that no process will be started for.
std::optional<RunProcess> own_process(const Experiment& experiment, const RunOptions& options) {
  if (!experiment.starts_cold()) return std::nullopt;
  if (auto process = run_process()) return process;
  const std::size_t last = experiment.run_of(experiment.cases().size() - 1);
  if (last == 0) return RunProcess{0, output_path(options, experiment.name()).string()};
  throw UsageError(
      fmt::format("--cold-start: these {} configurations need a process each; start paceline "
                  "without mpirun and srun, or give one configuration",
                  last + 1));
}

// The options of one process of several: it resumes from the file that the earlier ones have left.
RunOptions options_of(RunOptions options, const std::optional<RunProcess>& process) {
  if (!process) return options;
  options.output = process->output;
  options.resume = options.resume || process->run > 0;
  options.force = options.force && process->run == 0;
  return options;
}

// Runs work(). Stores a StoppedError; other errors are thrown.
void note_stop(std::optional<StoppedError>& stopped, const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != ExitCode::stopped) throw;
    stopped.emplace(error.what());
  }
}

constexpr std::string_view same_files = "give every rank the same program and the same files";

bool stop_asked(World& world) {
  return world.agree(StopSignal::requested() ? Status::stopped : Status::ok) == Status::stopped;
}

}  // namespace

std::filesystem::path output_path(const RunOptions& options, const std::string& experiment) {
  namespace fs = std::filesystem;
  if (!options.output.empty()) return options.output;
  std::string time = utc_now();  // 2026-11-21T02:05:31Z
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  std::error_code error;
  fs::create_directories("results", error);
  for (int n = 1;; ++n) {
    const std::string number = n == 1 ? "" : fmt::format("-{}", n);
    fs::path path = fmt::format("results/{}-{}{}.h5", experiment, time, number);
    if (fs::exists(path, error)) continue;
    // Creating it succeeds in one process only. ResultFile reports an error.
    if (fs::create_directory(path.string() + ".cases", error) || error) return path;
  }
}

ExitCode run_sweep(Experiment& experiment, World& world, RunInfo run, const RunOptions& options) {
  const bool root = world.rank() == 0;
  const std::vector<Case>& cases = experiment.cases();
  collectively(world, [&] {
    for (std::size_t i = 0; i < cases.size(); ++i) experiment.validate(i);
  });
  require_same(world, "number of cases", std::to_string(cases.size()), same_files);
  if (options.dry_run) {
    if (root) options.json ? print_plan_as_json(experiment) : print_plan(experiment);
    return ExitCode::done;
  }
  std::optional<RunProcess> process;
  collectively(world, [&] { process = own_process(experiment, options); });
  const RunOptions own = options_of(options, process);
  std::unique_ptr<Results> results;  // rank 0's
  collectively(world, [&] {
    if (root) results = std::make_unique<Results>(experiment, own, std::move(run));
  });

  std::vector<std::string> ids;
  for (const Case& c : cases) ids.push_back(c.id(experiment.naming_factors()));
  const std::vector<std::string> names = case_names(experiment);
  Progress progress(root && !options.quiet, predicted_work(experiment), stderr);
  ExitCode worst = ExitCode::done;
  std::optional<StoppedError> stopped;
  for (std::size_t i = 0; i < cases.size() && !stopped; ++i) {
    require_same(world, "case", names[i], same_files);
    const bool others = process && experiment.run_of(i) != process->run;
    const ResultFile::Kept which = others ? ResultFile::Kept::any : ResultFile::Kept::finished;
    const bool kept = root && results->keep(i, ids[i], which);
    if (!world.broadcast(kept ? "kept" : "", 0).empty() || others) continue;
    if (stop_asked(world)) {
      stopped.emplace("stopped by a signal");
      break;
    }
    progress.begin_case(static_cast<int>(i), names[i]);
    world.watchdog().set_current_case(names[i]);
    CaseRecord record;
    note_stop(stopped, [&] { record = experiment.run(i, progress); });
    if (stopped) break;
    record.id = ids[i];
    if (record.status >= Status::diverged) worst = ExitCode::mismatch;
    if (root) progress.end_case(headline(record));
    if (options.json) progress.clear();
    // If the file cannot be written, the run ends without a merge: finished cases keep their own
    // files.
    collectively(world, [&] {
      if (root) results->add(i, record);
    });
    note_stop(stopped, [&] {
      collectively(world, [&] {
        if (root) experiment.after_saved();
      });
    });
  }
  world.watchdog().set_current_case("");
  progress.clear();
  const bool more = process && process->run < experiment.run_of(cases.size() - 1);
  std::string path;
  collectively(world, [&] {
    if (root) path = results->finish(ids, !stopped && !more);
  });
  if (stopped) {
    const std::string where = path.empty()
                                  ? "no case was finished"
                                  : "finished cases are in " + path + "; --resume goes on from it";
    throw StoppedError(fmt::format("{}; {}", stopped->what(), where));
  }
  if (more) return static_cast<ExitCode>(more_runs_follow + static_cast<int>(worst));
  collectively(world, [&] {
    if (root) results->require_columns(worst);
  });
  return worst;
}

}  // namespace paceline
