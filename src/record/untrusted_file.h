#pragma once
// HDF5 trusts its input: a damaged or hostile file can crash it or exhaust the memory. Files that
// the user names are therefore read once, by a child process, before they are used.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace paceline {

// What becomes of a file: HDF5 survives reading some damage and crashes when it copies it.
enum class Use : std::uint8_t { read, copied };

// Throws UsageError if `path` is not a file, or is an HDF5 file that crashes its reader, takes more
// than 10 s of CPU time plus 1 s per MB, needs more than 8 GB of memory, claims more data than
// its size can encode, or has data in other files. A file whose reading returns an error passes;
// its later reader reports that. A file that is not HDF5 passes.
void require_readable(const std::filesystem::path& path, Use use = Use::read);

// Called by main(): if the command line makes this process such a reader, reads the file and
// returns the exit code. In a program that never calls this, such as a test, there is no reader and
// every file passes.
[[nodiscard]] std::optional<int> run_as_file_reader(int argc, char** argv);

}  // namespace paceline
