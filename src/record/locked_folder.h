#pragma once
// The folder of a running sweep's case files, and the lock that lets one run at a time use it:
// flock on its file .lock, which the kernel releases however the process ends.

#include <filesystem>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

class LockedFolder : NonCopyable {
 public:
  // How long to wait for the lock: a run that is being killed takes a while to end.
  static constexpr double default_patience = 10;  // seconds

  // Creates the folder and missing parents, and waits for the lock. Throws UsageError if the folder
  // cannot be created or another run keeps the lock.
  explicit LockedFolder(std::filesystem::path folder, double patience = default_patience);
  // Removes the folder and the parents that it created, if they are empty.
  ~LockedFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  // Removes the case files, and the folder unless it has other files.
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

// Whether the name still refers to the open file. A run that held the lock before may have removed
// or replaced the folder, and a lock on an unlinked file excludes no other run.
[[nodiscard]] bool still_named(int descriptor, const std::filesystem::path& name);

// The case files (*.h5) in a folder, sorted by name; empty if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> case_files(const std::filesystem::path& folder);

}  // namespace paceline
