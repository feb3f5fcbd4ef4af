#pragma once
// Schema version 2 in HDF5: a case's record as a file, many such files as one, one as many. Files
// are made in memory: HDF5 does not stand a disk that fills up while it writes (H5Ocopy of 1.10.8
// crashes), and result_file.h is to make files appear whole or not at all. Throws Hdf5Error where a
// file does not hold what it should.

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

// What read() returns. A file that does not hold what it should is a UsageError that names it.
template <class Read>
auto reading(const std::filesystem::path& path, const Read& read) {
  try {
    return read();
  } catch (const Hdf5Error& error) {
    throw UsageError(fmt::format("cannot read {}: {}", path.string(), error.what()));
  }
}

// The members of /cases, each of which can be the name of a file. Throws Hdf5Error for one that
// cannot.
[[nodiscard]] std::vector<std::string> case_names(const hdf5::File& file);

[[nodiscard]] hdf5::File case_file(const CaseRecord& record, const RunInfo& run);

// The cases of all `files`, in order, their summaries and the runs that measured them; the root
// describes the newest run. `tables` are of the whole sweep: /fit.
[[nodiscard]] hdf5::File merged_file(const std::vector<std::filesystem::path>& files, bool complete,
                                     const std::vector<Table>& tables);

// One case of a merged file, whose summary the caller has read, as a file of its own.
[[nodiscard]] hdf5::File extracted_case(const hdf5::File& from, const std::vector<Column>& summary,
                                        const std::string& id);

// Opens a file to read, of this schema version or the one before. Throws UsageError when it cannot
// be read or is of another.
[[nodiscard]] hdf5::File open_result_file(const std::filesystem::path& path);

// Throws UsageError for a file of an older version, to which new cases cannot be added. A file that
// cannot be read is not refused here.
void refuse_older_schema(const std::filesystem::path& path);

// The attributes of /cases/<id> of this file that are factors, sorted by name. Those of version 1
// that did not apply to the case are left out, as they are since.
[[nodiscard]] Case read_factors(const hdf5::File& file, const std::string& id);

}  // namespace paceline
