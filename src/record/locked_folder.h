#pragma once
// The folder of a running sweep's case files, and the lock that lets one run at a time use it:
// flock on its file .lock, which the kernel releases however the process ends. Only files that a
// run has written are removed from it.

#include <filesystem>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

class LockedFolder : NonCopyable {
 public:
  // How long to wait for the lock: a run that is being killed takes a while to end.
  static constexpr double default_patience = 10;  // seconds

  // Creates the folder and missing parents, waits for the lock, and removes the temporary files of
  // a killed run. Throws UsageError if the folder is a symbolic link or cannot be created, or if
  // another run keeps the lock. Warns of a file system without locks.
  explicit LockedFolder(std::filesystem::path folder, double patience = default_patience);
  // Removes the folder and the parents that it created, if they are empty.
  ~LockedFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  // Whether the folder is the one that was locked: nobody has removed or replaced it or its lock.
  [[nodiscard]] bool is_locked() const;
  // Removes these files, and the folder unless it has others. Releases the lock.
  void remove(const std::vector<std::filesystem::path>& files);

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

// The case files in a folder, sorted by name: regular files *.h5. Empty if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> case_files(const std::filesystem::path& folder);

// Removes the files named by temporary_in() (whole_file.h).
void remove_temporaries(const std::filesystem::path& folder);

}  // namespace paceline
