#pragma once
// The reverse of merged_file(): the cases of a result file as files of their own.

#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

// Where split() writes a case, and the fits: those of the case "".
[[nodiscard]] std::filesystem::path part_of(const std::filesystem::path& before,
                                            const std::string& id);

// Writes each case of the result file `path` as part_of(before, id), and its fits (fits.h) with the
// name of its newest run as part_of(before, ""). Returns the ids of the cases in the file's order.
// Throws UsageError if a case cannot be read, and StoppedError if one cannot be
// written.
[[nodiscard]] std::vector<std::string> split(const std::filesystem::path& path,
                                             const std::filesystem::path& before);

}  // namespace paceline
