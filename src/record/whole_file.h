#pragma once
// Files that are whole or not there at all.

#include <filesystem>
#include <string_view>
#include <system_error>

namespace paceline {

// What the path is a symbolic link to, whether that is there or not; otherwise the path itself.
[[nodiscard]] std::filesystem::path target_of(std::filesystem::path path);

// Writes the bytes under a name of their own first (`temporary`, in the same file system), and
// gives the file its name only when they are on the disk: whoever finds `path` finds it whole. An
// error leaves neither.
[[nodiscard]] std::error_code write_whole(const std::filesystem::path& path,
                                          const std::filesystem::path& temporary,
                                          std::string_view bytes);

// Puts the names of new files in the folder onto the disk. Not every file system can, and the files
// are whole without.
void flush_folder(const std::filesystem::path& folder);

// For what cannot be written to its own place: the file `name` in a new folder for temporary files,
// or in memory. Its path; empty if it cannot be written there either.
[[nodiscard]] std::filesystem::path write_elsewhere(const std::filesystem::path& name,
                                                    std::string_view bytes);

}  // namespace paceline
