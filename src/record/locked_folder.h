#pragma once
// LockedFolder: the folder of the case files of a running sweep (F.h5.cases), for one process at a
// time. The lock is flock() on a file in it, so that it ends with the process.

#include <filesystem>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

class LockedFolder : NonCopyable {
 public:
  // Creates the folder, waits for the lock (a run that is being killed takes a while to end), and
  // removes the temporary files of a killed run. Throws UsageError if the folder is a symbolic link
  // or cannot be created, or if another run keeps the lock. Warns of a file system without locks.
  explicit LockedFolder(std::filesystem::path folder, double patience_s = 10);
  // Removes the lock's file, and the folder unless it has others. Releases the lock.
  ~LockedFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  // Whether the folder is the one that was locked: nobody has removed or replaced it or its lock.
  [[nodiscard]] bool is_locked() const;
  // The same after removing these files.
  void remove(const std::vector<std::filesystem::path>& files);

 private:
  [[nodiscard]] bool try_lock();

  std::filesystem::path folder_;
  int lock_ = -1;
};

// The case files in a folder, sorted by name: regular files *.h5. Empty if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> case_files(const std::filesystem::path& folder);

}  // namespace paceline
