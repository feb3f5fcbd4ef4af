#pragma once
// The reverse of merged_file(): the cases of a result file as files of their own.

#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

// Writes each case of the result file `path` as folder/<id>.h5, and its fits (fits.h) as
// folder/fits, and returns the ids of the cases in the file's order. Creates the folder. Throws
// OlderSchemaError, UsageError if a case cannot be read, and StoppedError if one cannot be written.
[[nodiscard]] std::vector<std::string> split(const std::filesystem::path& path,
                                             const std::filesystem::path& folder);

}  // namespace paceline
