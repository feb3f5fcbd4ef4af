#include "harness/sweep_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "core/screen.h"
#include "core/text.h"
#include "record/case_file.h"
#include "record/console.h"
#include "record/descriptions.h"

namespace paceline {

namespace {

ResultFile::Existing existing(const RunOptions& run) {
  if (run.resume) return ResultFile::Existing::resume;
  return run.force ? ResultFile::Existing::replace : ResultFile::Existing::refuse;
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

// Rows grouped by the value of the factor that splits the console table, in the order of the
// cases.
std::vector<std::vector<Row>> grouped(const std::vector<Row>& rows, const std::string& factor) {
  if (factor.empty()) return {rows};
  std::vector<std::vector<Row>> groups;
  for (const Row& row : rows) {
    const auto same = [&](const std::vector<Row>& group) {
      return find_column(group.front(), factor)->value == find_column(row, factor)->value;
    };
    const auto group = std::find_if(groups.begin(), groups.end(), same);
    group == groups.end() ? groups.push_back({row}) : group->push_back(row);
  }
  return groups;
}

// Returns work(), which uses what earlier launches have recorded. A UsageError then names the file.
template <class F>
auto naming(const std::filesystem::path& file, const F& work) {
  try {
    return work();
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("cannot use {}: {}", file.string(), error.what()));
  }
}

// "device: cpu, AMD EPYC 9654": --device auto may have chosen another one than expected.
std::string device_line(const RunInfo& run) {
  const DeviceInfo& device = run.ranks.at(0).device;
  return fmt::format("device: {}, {}\n", name_of(device.kind), device.name);
}

// The command that shows the profiles; empty without one.
std::string profile_line(const std::vector<Row>& rows, const std::filesystem::path& file) {
  const bool is_profiled = std::ranges::any_of(
      rows, [](const Row& row) { return find_column(row, "profile_source") != nullptr; });
  if (!is_profiled) return "";
  std::error_code error;
  const std::filesystem::path from_here = std::filesystem::proximate(file, error);
  return fmt::format("kernels and scopes: paceline-analysis tables {}\n",
                     (error ? file : from_here).string());
}

// --output; or results/<experiment>-<now>.h5, whose folder of case files is then created: runs that
// start in the same second get different names.
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

}  // namespace

std::vector<std::string> display_names(const Experiment& experiment) {
  std::vector<FactorTexts> factors;
  for (const Case& c : experiment.cases()) {
    FactorTexts& texts = factors.emplace_back();
    for (const std::string& name : experiment.naming_factors()) {
      texts.emplace_back(name, c.has(name) ? to_text(c.at(name)) : "");
    }
  }
  const FactorColumns varying(factors);
  std::vector<std::string> names(factors.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t k = 0; k < varying.names.size(); ++k) {
      const std::string& text = varying.texts[k][i];
      if (text.empty()) continue;
      names[i] += fmt::format("{}{} {}", names[i].empty() ? "" : ", ", varying.names[k], text);
    }
    if (names[i].empty()) names[i] = experiment.name();
  }
  return names;
}

SweepResults::SweepResults(const Experiment& experiment, const RunOptions& options, RunInfo run)
    : experiment_(experiment),
      options_(options),
      run_(std::move(run)),
      file_(output_path(options, experiment.name()), existing(options), experiment.name()) {
  run_.previous = file_.newest_run();
  for (const std::string& damage : file_.damaged()) write_to(stderr, "warning: {}\n", damage);
  for (const std::string& input : experiment.input_files(0)) {
    if (!hdf5::File::is_hdf5(input) || !hdf5::File::lacks_locks(input)) continue;
    write_to(stderr,
             "warning: {} is read without a lock, which its file system lacks: let no "
             "program write to it\n",
             input);
  }
}

bool SweepResults::keep(std::size_t index, const std::string& id) {
  if (!file_.has(id)) return false;
  const Row kept = file_.read(id);
  naming(file_.path(), [&] { show(index, kept); });
  warn_of_changed_inputs(index, kept);
  return true;
}

void SweepResults::add(std::size_t index, const CaseRecord& record) {
  file_.write(record, run_);
  show(index, summary_row(record, run_.id()));
}

std::string SweepResults::finish(const std::vector<std::string>& ids, bool complete) {
  if (rows_.empty()) return {};
  std::vector<Table> closing =
      naming(file_.path(), [&] { return experiment_.closing_tables(rows_); });
  for (Table& table : closing) describe(table.path, experiment_.factor_notes(), table.columns);
  const std::string lost = file_.merge(ids, complete, closing);
  if (!options_.json) print(closing);
  std::fflush(screen);
  if (!lost.empty()) throw StoppedError(lost);
  return file_.path().string();
}

void SweepResults::warn_of_changed_inputs(std::size_t index, const Row& row) {
  for (const std::string& input : experiment_.input_files(index)) {
    if (!changed_after(value_in<std::string>(row, "run"), input)) continue;
    if (!changed_.insert(input).second) continue;
    write_to(stderr,
             "warning: --resume: {} has changed since the run of a finished case began; --force "
             "measures all cases again\n",
             input);
  }
}

void SweepResults::print(const std::vector<Table>& closing) const {
  const std::vector<std::string> names = display_names(experiment_);
  std::vector<Row> rows;
  std::vector<std::pair<std::string, std::string>> warned;
  for (const SummaryRow& row : rows_) {
    rows.push_back(row.columns);
    const Cell* kinds = find_column(row.columns, "warnings");
    warned.emplace_back(names.at(row.index), kinds == nullptr ? "" : to_text(kinds->value));
  }
  const std::vector<std::string>& factors = experiment_.naming_factors();
  for (const std::vector<Row>& group : grouped(rows, experiment_.splitting_factor())) {
    write_out("\n{}", console_table(group, factors, experiment_.shown_columns()));
  }
  if (const std::vector<Row> ok = ok_rows(rows); !ok.empty()) {
    const std::string times = times_note(ok);
    write_out("{}\n", wrapped(times + (times.empty() ? "" : " ") + experiment_.notes()));
  }
  for (const Table& t : closing) {
    write_out("\n{}:\n{}", t.path, closing_table(t, rows, factors));
  }
  write_out("{}{}{}{}{}\n", stop_reasons(rows), warning_lines(warned), device_line(run_),
            profile_line(rows, file_.path()), file_.path().string());
}

void SweepResults::show(std::size_t index, Row row) {
  if (options_.json) write_out("{}\n", json_line(row));
  std::fflush(screen);
  row.shrink_to_fit();  // the rows are what grows with the number of cases: 10 to 20 KB each
  rows_.push_back({index, std::move(row)});
}

}  // namespace paceline
