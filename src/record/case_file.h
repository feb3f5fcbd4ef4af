#pragma once
// Schema 1 in HDF5: a case's record as a file, many such files as one, one as many. These functions
// write in place and throw Hdf5Error; result_file.h makes their files appear whole or not at all.

#include <filesystem>
#include <string>
#include <vector>

#include "record/case_record.h"
#include "record/environment.h"
#include "record/hdf5.h"

namespace paceline {

void write_case_file(const std::filesystem::path& path, const CaseRecord& record,
                     const RunInfo& run);

// The cases of all `files`, in order, and their summaries; what describes the run comes from the
// file that was made last.
void merge_case_files(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& files, bool complete);

// One case of a merged file, whose summary the caller has read, as a file of its own.
void extract_case(const std::filesystem::path& path, const hdf5::File& from,
                  const std::vector<Column>& summary, const std::string& id);

// Opens a file to read. Throws UsageError when it cannot be read or is not of schema 1.
[[nodiscard]] hdf5::File open_result_file(const std::filesystem::path& path);

// The attributes of /cases/<id> that are factors, sorted by name.
[[nodiscard]] Case read_factors(const hdf5::Group& case_group);

// All datasets of a group whose members are columns.
[[nodiscard]] std::vector<Column> read_columns(const hdf5::Group& group);

}  // namespace paceline
