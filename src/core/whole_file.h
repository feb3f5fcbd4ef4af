#pragma once
// Where results may be written, and files that are complete or do not exist, or that tell whether
// they are as they were written.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace paceline {

// The path with symbolic links resolved, whether the target exists or not.
[[nodiscard]] std::filesystem::path target_of(std::filesystem::path path);

// Whether both paths lead to one file, which need not exist.
[[nodiscard]] bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// Differs after a file was created, written to or removed.
using FileState = std::pair<std::filesystem::file_time_type, std::uintmax_t>;
[[nodiscard]] FileState state_of(const std::filesystem::path& path);

// The file that `path` leads to. Throws UsageError unless it is, or may become, a result file.
// `command`: precedes the path in messages, such as "--output".
[[nodiscard]] std::filesystem::path result_path(const std::filesystem::path& path,
                                                std::string_view command);

// The folder of the case files of a running sweep.
[[nodiscard]] std::filesystem::path cases_folder(const std::filesystem::path& output);

// The name of a temporary file in this folder, which no other program gives its files.
[[nodiscard]] std::filesystem::path temporary_in(const std::filesystem::path& folder,
                                                 const std::string& name);
[[nodiscard]] bool is_temporary(const std::filesystem::path& path);

// Writes the bytes to `temporary` (in the same file system) and to disk, then renames the file to
// `path`. On an error neither file is left.
[[nodiscard]] std::error_code write_whole(const std::filesystem::path& path,
                                          const std::filesystem::path& temporary,
                                          std::string_view bytes);

// For a file that cannot be written to its folder: writes `name` to a new temporary folder, on disk
// or in memory. Returns its path; empty if that fails too.
[[nodiscard]] std::filesystem::path write_elsewhere(const std::filesystem::path& name,
                                                    std::string_view bytes);

// 64-bit FNV-1a.
[[nodiscard]] std::uint64_t digest(std::string_view bytes);

// The bytes, followed by their digest, so that damage is found before HDF5, which ignores what
// follows its data, reads them.
[[nodiscard]] std::string sealed(std::string_view bytes);

// The bytes that were sealed; nullopt if the file is no longer what was sealed. Throws UsageError
// if it cannot be read.
[[nodiscard]] std::optional<std::string> unsealed(const std::filesystem::path& path);

}  // namespace paceline
