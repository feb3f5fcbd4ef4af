#pragma once
// Experiment: options -> cases; each case -> a record of samples, memory and checks.

#include <string>
#include <vector>

#include "harness/options.h"
#include "measure/case.h"
#include "measure/progress.h"
#include "record/case_record.h"
#include "record/console.h"

namespace paceline {

struct Prediction {
  double flops = 0;         // of one rank and repetition
  double bytes = 0;         // moved to and from memory at least, likewise
  double memory_bytes = 0;  // the device's peak
};

class Experiment {
 public:
  Experiment() = default;
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;
  virtual ~Experiment() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  // The points of the sweep; the same on every rank.
  [[nodiscard]] virtual std::vector<Case> cases() const = 0;
  // The factors that name a case in ids, progress and tables.
  [[nodiscard]] virtual std::vector<std::string> naming_factors() const = 0;
  [[nodiscard]] virtual Prediction predict(const Case& c) const = 0;
  // Throws UsageError or EnvironmentError for what cannot run; before anything runs.
  virtual void validate(const Case& c) const = 0;
  // Collective. The record is whole on rank 0; its status is agreed on every rank. Progress is
  // shown on rank 0 alone. Throws StoppedError on every rank after a stop signal.
  [[nodiscard]] virtual CaseRecord run(const Case& c, Progress& progress) = 0;
  // On rank 0, once the last case's record is on the disk: what goes into a file of its own. Throws
  // StoppedError when that cannot be written.
  virtual void after_saved() {}
  // The summary's columns that the console table shows beside the phases.
  [[nodiscard]] virtual std::vector<ShownColumn> shown_columns() const = 0;
  // Tables of the whole sweep, from its summary rows, on rank 0 at its end; shown below the rest.
  [[nodiscard]] virtual std::vector<Table> closing_tables(
      const std::vector<std::vector<Column>>& /*rows*/) const {
    return {};
  }
  // Lines below the console table: the formulas of its figures.
  [[nodiscard]] virtual std::string notes() const = 0;
};

}  // namespace paceline
