#pragma once
// Schema version 2 in HDF5: writes a case's record as a file, merges many such files into one, and
// splits one into many. Files are built in memory: HDF5 crashes when the disk fills up while it
// writes (H5Ocopy of 1.10.8), and result_file.h makes files appear whole or not at all. Throws
// Hdf5Error for a file with missing or malformed contents.

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "record/case_record.h"
#include "record/datasets.h"
#include "record/environment.h"
#include "record/hdf5.h"

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

// The run that the root of a file describes.
[[nodiscard]] std::string newest_run(const hdf5::File& file);

// The summary row of a case with the column "run".
[[nodiscard]] Row summary_row(const CaseRecord& record, const RunInfo& run);

[[nodiscard]] hdf5::File case_file(const CaseRecord& record, const RunInfo& run);

// A file with the cases of all `files`, in order, their summaries and the runs that measured them;
// the root describes the newest run. `tables` are those of the whole sweep, such as /fit.
[[nodiscard]] hdf5::File merged_file(const std::vector<std::filesystem::path>& files, bool complete,
                                     const std::vector<Table>& tables);

// One case of a merged file as a file of its own. `summary` is the merged file's.
[[nodiscard]] hdf5::File extracted_case(const hdf5::File& from, const std::vector<Column>& summary,
                                        const std::string& id);

// Opens a file of this schema version for reading. Throws UsageError if it cannot be read or is of
// another version.
[[nodiscard]] hdf5::File open_result_file(const std::filesystem::path& path);

// The summary of a result file (merged, or of one case), as columns of equal length. Throws
// UsageError like open_result_file().
[[nodiscard]] std::vector<Column> read_summary(const std::filesystem::path& path);

// Throws Hdf5Error unless all columns of a table have one length.
void require_equal_lengths(const std::vector<Column>& columns, const std::string& table);

// The experiment whose results a file has. Throws UsageError like open_result_file().
[[nodiscard]] std::string experiment_of(const std::filesystem::path& path);

// The attributes of /cases/<id> that are factors, sorted by name.
[[nodiscard]] Case read_factors(const hdf5::File& file, const std::string& id);

}  // namespace paceline
