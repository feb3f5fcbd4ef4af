#pragma once
// HDF5 trusts what it reads: a damaged or hostile file can crash it, or take all memory. Files that
// come from elsewhere are therefore read once by a process of its own before they are used.

#include <filesystem>
#include <optional>

namespace paceline {

// Throws UsageError for what is no file, and for an HDF5 file that crashes its reader or keeps it
// busy (10 s of the processor, and another for each 10 MB), needs more than 8 GB of memory, claims
// more data than its bytes can stand for, or has data in other files. What can be read with an
// error passes: whoever needs it tells. A file that is not HDF5 passes, too.
void require_sound_file(const std::filesystem::path& path);

// For main(): what the process does that reads a file in place of another, if the command line says
// that this is one; its exit code. In a program that has never asked, such as a test, there is no
// such process, and every file passes.
[[nodiscard]] std::optional<int> read_as_asked(int argc, char** argv);

}  // namespace paceline
