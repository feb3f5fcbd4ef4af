#pragma once
// HDF5 trusts its input: a damaged or hostile file can crash it or exhaust the memory. Files that
// the user names are therefore read by a child process before they are used, and those whose cases
// are copied into another file are also copied there.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

// Throws UsageError if `path` is not a file, or is an HDF5 file that crashes its reader, takes more
// than 5 s of CPU time plus 1 s per MB, needs more than 8 GiB of memory, claims more data than
// its size can encode, has data in other files, or changes in the meantime. A file whose reading
// returns an error passes; its later reader reports that. A file that is not HDF5 passes.
void require_readable(const std::filesystem::path& path);

// split() (split_file.h) in the child process, so that this process opens only files that paceline
// has just written. Throws what require_readable() and split() throw.
[[nodiscard]] std::vector<std::string> split_untrusted(const std::filesystem::path& path,
                                                       const std::filesystem::path& before);

// Called by main(): if the command line makes this process such a child, does its work and returns
// the exit code. In a program that never calls this, such as a test, every file is trusted.
[[nodiscard]] std::optional<int> run_as_file_reader(int argc, char** argv);

}  // namespace paceline
