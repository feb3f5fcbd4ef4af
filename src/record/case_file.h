#pragma once
// Schema version 2 in HDF5: writes a case's record as a file, and copies cases of such files and of
// a merged file into one. Files are built in memory: HDF5 crashes when the disk fills up while it
// writes (H5Ocopy of 1.10.8), and result_file.h makes files appear whole or not at all. Throws
// Hdf5Error for a file with missing or malformed contents.

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/hdf5.h"
#include "record/case_record.h"
#include "record/environment.h"

namespace paceline {

// Returns read(). An Hdf5Error becomes a UsageError that names the file.
template <class Read>
auto reading(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const Hdf5Error& error) {
    throw UsageError(fmt::format("cannot read {}: {}", path.string(), error.what()));
  }
}

// The members of /cases. Throws Hdf5Error for one that cannot be a file name.
[[nodiscard]] std::vector<std::string> case_names(const hdf5::File& file);

[[nodiscard]] hdf5::File case_file(const CaseRecord& record, const RunInfo& run);

// Collects cases in one file, with their summaries and the runs that measured them.
class MergedFile {
 public:
  // Copies a case. `summary`: the columns of from's /summary.
  void add(const hdf5::File& from, const std::vector<Column>& summary, const std::string& id);
  // The root describes the newest run. `tables` are those of the whole sweep, such as /fit. At
  // least one case has been added; must be the last call.
  [[nodiscard]] hdf5::File finish(bool complete, const std::vector<Table>& tables);
  [[nodiscard]] std::size_t size() const { return rows_.size(); }

 private:
  hdf5::File file_ = hdf5::File::in_memory();
  std::string experiment_;
  std::vector<std::vector<Column>> rows_;
  std::pair<std::string, std::string> newest_;  // run, and when a case of it was finished
};

// Throws Hdf5Error unless it is a result file of this schema version.
void require_schema(const hdf5::File& file);

// Throws Hdf5Error if the file lacks the summary row or the run of a case, which MergedFile::add()
// needs. `summary`: the columns of the file's /summary.
void require_mergeable(const hdf5::File& file, const std::vector<Column>& summary,
                       const std::string& id);

// The columns of /summary.
[[nodiscard]] std::vector<Column> read_summary(const hdf5::File& file);

// The tables of fits over the cases of a whole file, which may be of several launches.
[[nodiscard]] std::vector<Table> read_fits(const hdf5::File& file);
// `tables` with those rows of earlier launches' fits that they do not replace.
[[nodiscard]] std::vector<Table> with_earlier(std::vector<Table> tables,
                                              const std::vector<Table>& fits);

// The row of a case with flags as such. `summary`: the columns of the file's /summary.
[[nodiscard]] Row row_of_case(const hdf5::File& file, const std::vector<Column>& summary,
                              const std::string& id);

// Tables and samples as self-describing datasets (datasets.cpp): with the attributes `unit` and
// `description`, and dimensions with names and scales.

// Makes a group, with the description of its path if there is one.
[[nodiscard]] hdf5::Group make_described_group(const hdf5::Group& parent, const std::string& path);

// Writes a group at the table's path under `parent`, with a dataset for each column. Missing units
// and descriptions come from record/description_table.cpp.
void write_table(const hdf5::Group& parent, Table table);

// The columns of the table at `path` under `parent`, without those of groups in it. Throws
// Hdf5Error unless they have one length.
[[nodiscard]] std::vector<Column> read_columns(const hdf5::Group& parent, const std::string& path);

// Writes samples/<phase> and samples_warmup/<phase> in a case's group. The scales of their
// dimensions [rank, repetition] are in the case's group, so that all members of samples/ are
// phases.
void write_samples(const hdf5::Group& group, const std::vector<PhaseSamples>& phases);

// Attaches those scales in a copy of such a group; does nothing if the group has none.
void attach_scales(const hdf5::Group& group);

}  // namespace paceline
