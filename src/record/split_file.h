#pragma once
// The reverse of merged_file(): the cases of a result file as files of their own.

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

// The tables of a whole file that describe cases of several launches.
inline constexpr std::array<const char*, 2> fitted_tables = {"fit", "fit_residuals"};

// Writes each case of the result file `path` as folder/<id>.h5, and the tables `fitted_tables` as
// folder/fits, and returns the ids of the cases in the file's order. Creates the folder. Throws
// OlderSchemaError, UsageError if a case cannot be read, and StoppedError if one cannot be written.
[[nodiscard]] std::vector<std::string> split(const std::filesystem::path& path,
                                             const std::filesystem::path& folder);

}  // namespace paceline
