#pragma once
// The folder of a running sweep's case files, and the lock that one run at a time holds on it:
// flock on its file .lock, which the kernel lets go when the process ends, however it ends.

#include <filesystem>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

class LockedFolder : NonCopyable {
 public:
  // How long a run waits for another that holds the lock: one that is being killed needs some.
  static constexpr double default_patience = 10;  // seconds

  // Makes the folder and its parents where they are missing, and waits for another run to let go of
  // it. Throws UsageError when the folder cannot be made or the lock is not to be had.
  explicit LockedFolder(std::filesystem::path folder, double patience = default_patience);
  // Removes what was made when the folder holds nothing else.
  ~LockedFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  // Removes the folder with all that is in it.
  void remove();

 private:
  void lock(double patience);
  [[nodiscard]] bool try_lock();
  void unlock_and_remove();
  void remove_what_is_empty() const;

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_parents_;  // deepest first
  int lock_ = -1;
};

// Whether the open file is still what the name stands for. A run that held a lock before may have
// removed or replaced the folder, and a lock on a file without a name keeps nobody out.
[[nodiscard]] bool still_named(int descriptor, const std::filesystem::path& name);

// The case files (*.h5) in a folder, sorted by name; none when there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> case_files(const std::filesystem::path& folder);

}  // namespace paceline
