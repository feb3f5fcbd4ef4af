#pragma once
// A folder that is removed when the test ends. It is in memory if the system has a tmpfs, so that
// fsync does not wait for a busy disk.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "core/non_copyable.h"

namespace paceline {

class TempFolder : NonCopyable {
 public:
  TempFolder() {
    const bool in_memory = access("/dev/shm", W_OK) == 0;
    const std::filesystem::path parent =
        in_memory ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string name = (parent / "paceline-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Writes a line to a file in the folder, and creates the folders in between.
  void write(const std::filesystem::path& file, const std::string& line) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << line << "\n";
  }

 private:
  std::filesystem::path path_;
};

}  // namespace paceline
