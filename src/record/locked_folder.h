#pragma once
// The folder of a running sweep's case files, and the lock that one run at a time holds on it:
// flock on its file .lock, which the kernel lets go when the process ends, however it ends.

#include <filesystem>
#include <vector>

namespace paceline {

class LockedFolder {
 public:
  // Makes the folder and its parents where they are missing, and waits up to 10 s for another run
  // to let go of it. Throws UsageError when the folder cannot be made or the lock is not to be had.
  explicit LockedFolder(std::filesystem::path folder);
  // Removes what was made when the folder holds nothing else.
  ~LockedFolder();
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  // The finished case files, sorted by name.
  [[nodiscard]] std::vector<std::filesystem::path> files() const;
  // Removes the folder with all that is in it.
  void remove();

 private:
  void lock();
  [[nodiscard]] bool try_lock();
  void remove_leftovers() const;
  void remove_what_is_empty() const;

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_parents_;  // deepest first
  int lock_ = -1;
};

// The case files (*.h5) in a folder, sorted by name; none when there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> case_files(const std::filesystem::path& folder);

}  // namespace paceline
