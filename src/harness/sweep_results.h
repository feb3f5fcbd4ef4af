#pragma once
// What a sweep leaves behind: its result file and its console output.

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/experiment.h"
#include "harness/run_options.h"
#include "record/environment.h"
#include "record/result_file.h"

namespace paceline {

// A name for every case, of the factors that differ between cases: "context 128, sync flat". The
// experiment's name if none differ.
[[nodiscard]] std::vector<std::string> display_names(const Experiment& experiment);

// Only rank 0 has one.
class SweepResults {
 public:
  // Creates the result file; throws like ResultFile. `options` must outlive this object.
  SweepResults(const Experiment& experiment, const RunOptions& options, RunInfo run);

  // True if the file has the case, finished.
  [[nodiscard]] bool keep(std::size_t index, const std::string& id);
  // Throws StoppedError if the case cannot be written.
  void add(std::size_t index, const CaseRecord& record);
  // Merges the file and prints the tables. Returns its path, "results/model.h5"; empty if no case
  // is finished. Throws StoppedError like ResultFile::merge(), and if a case was lost.
  [[nodiscard]] std::string finish(const std::vector<std::string>& ids, bool complete);

 private:
  // Warns of input files of a kept case that were written after its run.
  void warn_of_changed_inputs(std::size_t index, const Row& row);
  void show(std::size_t index, Row row);
  void print(const std::vector<Table>& closing) const;

  const Experiment& experiment_;
  const RunOptions& options_;
  RunInfo run_;
  ResultFile file_;
  std::vector<SummaryRow> rows_;
  std::set<std::string> changed_;  // input files that a warning has named
};

}  // namespace paceline
