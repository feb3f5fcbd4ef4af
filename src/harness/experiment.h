#pragma once
// Experiment: options -> cases; each case -> a record of samples, memory and checks.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/non_copyable.h"
#include "harness/case_run.h"
#include "harness/run_options.h"
#include "measure/case.h"
#include "measure/factors.h"
#include "measure/progress.h"
#include "record/case_record.h"
#include "record/console.h"
#include "record/environment.h"

namespace paceline {

// A row of the sweep's summary.
struct SummaryRow {
  std::size_t index = 0;  // the case's
  Row columns;
};

// An experiment as the sweep sees it: cases by index.
class Experiment : NonCopyable {
 public:
  virtual ~Experiment() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  // The recorded factors of each case; the same on every rank.
  [[nodiscard]] const std::vector<Case>& cases() const { return recorded_; }
  // The factors that name a case in ids, progress and tables.
  [[nodiscard]] const std::vector<std::string>& naming_factors() const { return naming_; }
  [[nodiscard]] const std::vector<FactorNote>& factor_notes() const { return notes_; }
  [[nodiscard]] virtual Prediction predict(std::size_t index) const = 0;
  // Why a case will be skipped or run out of memory here, "skipped: needs 4 ranks"; empty: it runs.
  [[nodiscard]] virtual std::string cannot_run(std::size_t index) const = 0;
  // The files that a case reads; options name them.
  [[nodiscard]] virtual std::vector<std::string> input_files(std::size_t /*index*/) const {
    return {};
  }
  // Called for all cases before any runs. Throws UsageError or EnvironmentError for a case that
  // cannot run.
  virtual void validate(std::size_t index) const = 0;
  // Collective. The record is complete on rank 0; its status is the same on every rank. Rank 0
  // shows progress. Throws StoppedError on every rank after a stop signal.
  [[nodiscard]] virtual CaseRecord run(std::size_t index, Progress& progress) = 0;
  // Called on rank 0 once the last record is on disk; writes files other than the result file.
  // Throws StoppedError if they cannot be written.
  virtual void after_saved() {}
  // The summary columns that the console table shows in addition to the phases.
  [[nodiscard]] virtual std::vector<ShownColumn> shown_columns() const = 0;
  // A factor by whose values the console splits the cases into tables, since they have little in
  // common. Empty: one table.
  [[nodiscard]] virtual std::string splitting_factor() const { return {}; }
  // Tables of the whole sweep, made of its summary rows on rank 0 at the end; shown last.
  [[nodiscard]] virtual std::vector<Table> closing_tables(
      const std::vector<SummaryRow>& /*rows*/) const {
    return {};
  }
  // Text below the console table: the formulas of its columns.
  [[nodiscard]] virtual std::string notes() const = 0;

 protected:
  std::vector<Case> recorded_;
  std::vector<std::string> naming_;
  std::vector<FactorNote> notes_;
};

// An experiment whose cases are C.
template <class C>
class ExperimentOf : public Experiment {
 public:
  [[nodiscard]] Prediction predict(std::size_t index) const final {
    return prediction(case_at(index));
  }
  [[nodiscard]] std::string cannot_run(std::size_t index) const final {
    const C& c = case_at(index);
    if (const std::string reason = reason_to_skip(c); !reason.empty()) return "skipped: " + reason;
    const bool fits = prediction(c).needed_bytes() <= static_cast<double>(device_memory(c));
    return fits ? "" : "oom: more than the device's memory";
  }
  void validate(std::size_t index) const final { check(case_at(index)); }
  [[nodiscard]] CaseRecord run(std::size_t index, Progress& progress) final {
    CaseRecord record = measure(case_at(index), progress);
    record.factors = cases().at(index);
    record.factor_notes = factor_notes();
    return record;
  }

 protected:
  // Called by the constructor of the derived class.
  void set_cases(const Factors<C>& factors, std::vector<C> cases) {
    typed_ = std::move(cases);
    for (const C& c : typed_) recorded_.push_back(recorded(factors, c));
    notes_ = notes_of(factors);
    for (const Factor<C>& f : factors) {
      if (f.names_case) naming_.emplace_back(f.name);
    }
  }
  [[nodiscard]] const C& case_at(std::size_t index) const { return typed_.at(index); }
  [[nodiscard]] std::size_t case_count() const { return typed_.size(); }
  // For check(): throws EnvironmentError if every case is skipped, with the reason of the first.
  void require_a_case_that_runs(const C& c) const {
    if (index_of(c) > 0) return;
    const auto runs = [this](const C& other) { return reason_to_skip(other).empty(); };
    if (std::none_of(typed_.begin(), typed_.end(), runs)) throw EnvironmentError(reason_to_skip(c));
  }
  // The index of a case passed to measure() or check().
  [[nodiscard]] std::size_t index_of(const C& c) const {
    return static_cast<std::size_t>(&c - typed_.data());
  }

  // predict(), validate() and run() of the base, by case.
  [[nodiscard]] virtual Prediction prediction(const C& c) const = 0;
  virtual void check(const C& c) const = 0;
  // The reason why this launch cannot run a case, which is then skipped; empty if it can.
  [[nodiscard]] virtual std::string reason_to_skip(const C& /*c*/) const { return {}; }
  // Bytes that the case's device may allocate.
  [[nodiscard]] virtual std::size_t device_memory(const C& c) const = 0;
  [[nodiscard]] virtual CaseRecord measure(const C& c, Progress& progress) = 0;

 private:
  std::vector<C> typed_;
};

// Runs every case of an experiment and writes its result file, with `run` as one of the file's
// runs; with --dry-run prints the cases instead. Collective. Returns mismatch if a check failed or
// training diverged. Throws UsageError for a bad case or an output that exists, StoppedError after
// a signal or if results cannot be written.
[[nodiscard]] ExitCode run_sweep(Experiment& experiment, World& world, RunInfo run,
                                 const RunOptions& options);

}  // namespace paceline
