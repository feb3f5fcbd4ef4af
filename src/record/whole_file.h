#pragma once
// Atomic writes: a file is complete or does not exist.

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace paceline {

// The path with symbolic links resolved, whether the target exists or not.
[[nodiscard]] std::filesystem::path target_of(std::filesystem::path path);

// Whether both paths lead to one file, which need not exist.
[[nodiscard]] bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// Differs after a file was created, written to, replaced or removed.
struct FileState {
  ino_t inode = 0;
  off_t size = 0;
  std::pair<time_t, long> written;

  [[nodiscard]] bool operator==(const FileState&) const = default;
};
[[nodiscard]] FileState state_of(const std::filesystem::path& path);  // default: no file

// The name of a temporary file in this folder, which no other program gives its files.
[[nodiscard]] std::filesystem::path temporary_in(const std::filesystem::path& folder,
                                                 const std::string& name);
[[nodiscard]] bool is_temporary(const std::filesystem::path& path);

// Writes the bytes to `temporary` (in the same file system), flushes them to disk, then renames the
// file to `path`: `path` never exists incomplete. On an error neither file is left.
[[nodiscard]] std::error_code write_whole(const std::filesystem::path& path,
                                          const std::filesystem::path& temporary,
                                          std::string_view bytes);

// Flushes the folder's entries to disk. Errors are ignored: not every file system can, and the
// files are complete without it.
void flush_folder(const std::filesystem::path& folder);

// For a file that cannot be written to its folder: writes `name` to a new temporary folder, on disk
// or in memory. Returns its path; empty if that fails too.
[[nodiscard]] std::filesystem::path write_elsewhere(const std::filesystem::path& name,
                                                    std::string_view bytes);

}  // namespace paceline
