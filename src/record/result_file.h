#pragma once
// The results of a sweep on disk. While the sweep runs, each case is F.h5.cases/<id>.h5: written
// under a temporary name with a digest, closed, renamed, so that kill -9 loses no finished case and
// no file needs repair. merge() makes F.h5 of them in the same way and removes the folder. What
// others have done to the files meanwhile is found and reported; nothing of theirs is removed or
// merged, and without --force nothing replaced. Only rank 0 uses this class. If HDF5 crashes on an
// F.h5 to resume, rank 0 alone ends with ExitCode::usage, and the launcher ends the others.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/hdf5.h"
#include "core/non_copyable.h"
#include "core/whole_file.h"
#include "record/case_record.h"
#include "record/environment.h"

namespace paceline {

class MergedFile;

// The folder of the case files of a running sweep (F.h5.cases), for one process at a time. The lock
// is flock() on a file in it, so that it ends with the process.
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

// Holds the lock on F.h5.cases from construction to merge().
class ResultFile {
 public:
  enum class Existing : std::uint8_t { refuse, resume, replace };

  // Creates the folder and its parents and takes the lock (flock on F.h5.cases/.lock); waits up to
  // 10 s if another run holds it. Existing::refuse: throws UsageError if F.h5 or finished cases
  // exist (the message names --resume and --force). resume: keeps finished cases, those of an F.h5
  // included, and sets aside case files that are damaged (damaged()). replace: deletes the finished
  // cases now, and F.h5 once the first new case is written. Throws UsageError if the folder cannot
  // be written, another run keeps the lock, the name does not end in .h5, or an F.h5 to resume
  // cannot be read. Leaves no folder behind when it throws, and no folder without a case when it is
  // destroyed. `experiment`: what is measured; throws UsageError if --resume finds cases of
  // another. Empty: `paceline merge`, which adds none.
  ResultFile(const std::filesystem::path& path, Existing existing, const std::string& experiment);

  // Whether there is a case of this id, which a digest of its factors ends, with status `ok` or
  // `skipped`: a case that ran out of memory or failed a check is worth another try.
  [[nodiscard]] bool has(const std::string& id) const;
  [[nodiscard]] std::size_t size() const { return cases_.size(); }
  // The summary row of a case that has() found.
  [[nodiscard]] Row read(const std::string& id) const;
  // Throws StoppedError if the case cannot be written (a full disk) or the folder is no longer the
  // one that was locked; the message says where the case was written instead, in a folder for
  // temporary files.
  void write(const CaseRecord& record, const RunInfo& run);
  // Writes F.h5 from the cases that this run found or wrote, in the order of `ids`, then by name,
  // and removes their files and the folder. Fits of an F.h5 that was resumed stay unless `tables`
  // replaces them. Without a case it writes no F.h5. Returns a line about case files that were
  // removed or changed meanwhile, without which F.h5 is not complete; empty if there are none.
  // Throws StoppedError and keeps the case files if F.h5 cannot be written, or if another program
  // has written it or replaced the folder. Must be the last call: it releases the lock. `tables`:
  // those of the whole sweep.
  std::string merge(const std::vector<std::string>& ids, bool complete,
                    const std::vector<Table>& tables = {});

  // With symbolic links resolved.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // A line for each case file that was set aside as F.h5.<id>.damaged.
  [[nodiscard]] const std::vector<std::string>& damaged() const { return damaged_; }
  // The newest of the runs whose cases are kept; empty if there is none.
  [[nodiscard]] const std::string& newest_run() const { return newest_run_; }

 private:
  struct KeptCase {
    std::string status;
    std::optional<std::uint64_t> digest = {};  // of its case file; none: F.h5 has the case
  };

  [[nodiscard]] std::filesystem::path case_path(const std::string& id) const;
  void find_cases(const std::string& experiment);
  // Renames a damaged case file; throws UsageError if that is impossible.
  void set_aside(const std::filesystem::path& file);
  // Returns read(file, its summary) for the case file, or for F.h5 if that has the newest of the
  // case. Throws UsageError if it cannot be read, or if the case file has changed.
  template <class Read>
  auto with_file_of(const std::string& id, const Read& read) const;
  // Returns the case files that were copied. Of a case whose file was removed or changed (lost_),
  // copies the one that F.h5 has, if any.
  [[nodiscard]] std::vector<std::filesystem::path> copy_cases(MergedFile& merged,
                                                              const std::vector<std::string>& ids);

  std::filesystem::path path_;
  LockedFolder folder_;
  std::optional<FileState> as_found_;  // F.h5 when it was locked, unless it is replaced
  std::optional<hdf5::File> earlier_;  // an F.h5 that is resumed, and what it holds
  std::vector<Column> earlier_summary_;
  std::vector<std::string> earlier_ids_;
  std::vector<Table> earlier_fits_;
  std::map<std::string, KeptCase> cases_;  // found or written, by id
  std::vector<std::string> damaged_;
  std::vector<std::string> lost_;  // cases whose files were removed or changed
  std::string newest_run_;
  bool replaces_ = false;  // an F.h5 that is deleted once a case is written
};

struct MergedCases {
  std::size_t count = 0;
  std::vector<std::string> warnings;  // of case files that were set aside, removed or changed
};
// `paceline merge F.h5`: merge() after a crash, with `complete` false. Takes the lock like a run.
// An F.h5 that was being resumed keeps the cases that it had. Throws UsageError if there is no
// F.h5.cases folder with a case in it.
[[nodiscard]] MergedCases merge_after_crash(const std::filesystem::path& path);

}  // namespace paceline
