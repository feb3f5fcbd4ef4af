#pragma once
// Where a result file is, or may be written.

#include <filesystem>
#include <string_view>

namespace paceline {

// The file that `path` leads to, with symbolic links resolved. Throws UsageError unless it is, or
// may become, a result file. `command`: precedes the path in messages, such as "--output". Creates
// nothing.
[[nodiscard]] std::filesystem::path result_path(const std::filesystem::path& path,
                                                std::string_view command);

// The folder of the case files of a running sweep.
[[nodiscard]] std::filesystem::path cases_folder(const std::filesystem::path& output);

}  // namespace paceline
